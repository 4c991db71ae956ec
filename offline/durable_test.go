package offline

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// TestArchivesAreDurable: a file of a recording, of a data set or of predictions is completely on the disk before it
// has its name, and only its owner can read it.
func TestArchivesAreDurable(t *testing.T) {
	dir := t.TempDir()
	d := tones(6, 10)
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	ev := evaluated(t, m, d, EvaluateOptions{})
	for name, write := range map[string]func(path string) error{
		"set":         func(path string) error { return archive.WriteDataset(path, d) },
		"predictions": ev.WritePredictions,
		"recording": func(path string) error {
			w, err := archive.WriteRecording(path, archive.RecordingInfo{Name: "r", Channels: []string{"x"}})
			if err != nil {
				return err
			}
			if err := w.Write(&archive.RecordingChunk{Stream: []string{"a"}, Seq: []int64{1}, Time: []int64{archive.NoTime}, Values: []float32{1}, End: []bool{true}, Label: []string{""}}); err != nil {
				return err
			}
			return w.Close()
		},
	} {
		path := filepath.Join(dir, name)
		var steps []durable.Step
		end := durable.Observe(func(s durable.Step) {
			if s.Kind == "sync" {
				s.Path = ""
			}
			steps = append(steps, s)
		})
		err := write(path)
		end()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st, err := os.Stat(path)
		if err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v, want 0600", name, st.Mode(), err)
		}
		if want := []durable.Step{{Kind: "sync", Size: st.Size()}, {Kind: "rename", Path: path}, {Kind: "folder", Path: dir}}; !reflect.DeepEqual(steps, want) {
			t.Errorf("%s: %v, want %v", name, steps, want)
		}
	}
}
