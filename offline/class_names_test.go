package offline

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
)

// TestLabelsOfTheSameNumber: 1 and 1.0 are one class wherever labels are text.
func TestLabelsOfTheSameNumber(t *testing.T) {
	dir := place(t, map[string]string{
		"P_TRAIN.tsv": "1\t1\t2\n2.0\t3\t4\n01\t5\t6\n",
		"P_TEST.tsv":  "1.0\t1\t2\n2\t3\t4\n-0\t5\t6\n",
		"r.csv":       "stream,x,end,label\na,1,0,1\na,2,1,1.0\nb,1,1,2.50\nc,1,1,2.5\n",
	})
	d, err := Import(context.Background(), ImportOptions{Dir: dir}, nil)
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
	if _, err := ImportRecording(context.Background(), RecordingImport{CSV: filepath.Join(dir, "r.csv"), Out: out}, nil); err != nil {
		t.Fatal(err)
	}
	src, err := openLabelled(context.Background(), RecordingFiles{Paths: []string{out}}, nil)
	if want := []string{"1", "2.5"}; err != nil || !slices.Equal(src.classes, want) {
		t.Errorf("classes of the recording %q, %v, want %q", src.classes, err, want)
	}

	ev := &Evaluation{Classes: []string{"1.0", "2"}}
	if got := ev.index([]string{"1", "2.0", "2", "3"}); !slices.Equal(got, []int{0, 1, 1, 2}) {
		t.Errorf("classes of a model: %v", got)
	}
	d.Classes = []string{"1", "1.0"}
	wantError(t, d.validate(), `classes "1" and "1.0" are the same number`)
}

// TestDotsInNames: the name of a data set may have dots.
func TestDotsInNames(t *testing.T) {
	for path, want := range map[string][2]string{
		"x/Line1.2_TRAIN.ts": {"Line1.2", "train"}, "Line1.2_TEST.ts.gz": {"Line1.2", "test"}, "A_train.tsv": {"A", "train"},
		"v1.0.csv.gz": {"v1.0", ""}, "recording.csv": {"recording", ""}, ".hidden": {".hidden", ""}, "plain": {"plain", ""},
	} {
		if name, split := splitName(path); name != want[0] || string(split) != want[1] {
			t.Errorf("%s: name %q, split %q, want %q", path, name, split, want)
		}
	}
	dir := place(t, map[string]string{"Line1.2_TRAIN.ts": "@classLabel true a\n@data\n1:a\n", "Line1.2_TEST.ts": "@classLabel true a\n@data\n1:a\n"})
	d, err := Import(context.Background(), ImportOptions{Dir: dir}, nil)
	if err != nil || d.Name != "Line1.2" || len(d.Part(Test)) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}
