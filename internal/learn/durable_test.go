package learn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// TestStoreIsDurable: the store's state reaches the disk only after the whole segment with its
// features.
func TestStoreIsDurable(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	must(t, s.BindTo(newOrigin(3)))
	var steps []string
	size := int64(0)
	end := durable.Observe(func(at durable.Step) {
		name := filepath.Base(at.Path)
		switch {
		case at.Kind == "folder":
			name = "folder"
		case strings.HasPrefix(name, stateFile):
			name = "state"
		default:
			name = "segment"
		}
		steps = append(steps, at.Kind+" "+name)
		switch at.Kind + " " + name {
		case "sync segment":
			size = at.Size
		case "rename segment":
			if st, err := os.Stat(at.Path); err != nil || st.Size() != size || size == 0 {
				t.Errorf("%v: %d bytes of the segment are on the disk", err, size)
			}
		}
	})
	defer end()
	must(t, s.AddSequence(sequenceOf("a", 7), []float32{1, 2, 3}))
	must(t, s.Save(Progress{}))
	if want := []string{"sync segment", "rename segment", "folder folder", "sync state", "rename state", "folder folder"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}
