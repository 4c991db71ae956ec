package offline

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// TestLabelsOfTheSameNumber: 1 and 1.0 are one class wherever labels are text.
func TestLabelsOfTheSameNumber(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"P_TRAIN.tsv": "1\t1\t2\n2.0\t3\t4\n01\t5\t6\n",
		"P_TEST.tsv":  "1.0\t1\t2\n2\t3\t4\n-0\t5\t6\n",
		"r.csv":       "stream,x,end,label\na,1,0,1\na,2,1,1.0\nb,1,1,2.50\nc,1,1,2.5\n",
	})
	d, err := imports.Import(context.Background(), imports.Options{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-0", "01", "1", "2"}; !slices.Equal(d.Classes, want) {
		t.Errorf("classes %q, want %q", d.Classes, want)
	}
	for i, want := range []string{"1", "2", "01", "1", "2", "-0"} {
		if got := d.Classes[d.Series[i].Label]; got != want {
			t.Errorf("series %d has class %q, want %q", i, got, want)
		}
	}
	if len(d.Source.Warnings) != 3 { // two joined, and -0 that only the test part has
		t.Errorf("warnings %q", d.Source.Warnings)
	}

	out := filepath.Join(dir, "r.parquet")
	if _, err := imports.ImportRecording(context.Background(), imports.RecordingImport{Path: filepath.Join(dir, "r.csv"), Out: out}, nil); err != nil {
		t.Fatal(err)
	}
	src, err := openLabeled(context.Background(), archive.RecordingFiles{Paths: []string{out}}, "", nil)
	if want := []string{"1", "2.5"}; err != nil || !slices.Equal(src.classes, want) {
		t.Errorf("classes of the recording %q, %v, want %q", src.classes, err, want)
	}

	ev := &Evaluation{Classes: []string{"1.0", "2"}}
	if got := ev.index([]string{"1", "2.0", "2", "3"}); !slices.Equal(got, []int{0, 1, 1, 2}) {
		t.Errorf("classes of a model: %v", got)
	}
	d.Classes = []string{"1", "1.0"}
	archivetest.WantError(t, d.Validate(), `classes "1" and "1.0" are the same number`)
}
