package imports

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// A name with terminal control characters, or of excessive length, is refused on input:
// by every reader, with file and line, and shortened.
func TestNamesOfFiles(t *testing.T) {
	for _, name := range []string{"a\x1b[31mb", strings.Repeat("x", 2<<20), "a\u0085b", "\u202eb"} {
		for file, form := range map[string]string{
			"P_TRAIN.ts":   "@problemName P\n@classLabel true %[1]s c\n@data\n1,2:%[1]s\n",
			"P_TRAIN.tsv":  "%s\t1\t2\n",
			"P_TRAIN.arff": "@relation P\n@attribute a numeric\n@attribute t {%[1]s,c}\n@data\n1,%[1]s\n",
			"P_TRAIN.txt":  "%s\t1 2\n",
			"stream.csv":   "stream,c0\n%s,1\n",
			"label.csv":    "stream,c0,label\ns,1,%s\n",
			"channel.csv":  "stream,%s\ns,1\n",
		} {
			dir := archivetest.Place(t, map[string]string{file: fmt.Sprintf(form, name)})
			var err error
			if path := filepath.Join(dir, file); strings.HasSuffix(file, ".csv") {
				_, err = ImportRecording(t.Context(), RecordingImport{Path: path, Out: filepath.Join(dir, "out")}, nil)
			} else {
				_, err = Import(t.Context(), Options{Train: path}, nil)
			}
			var content *datafile.ContentError
			if !errors.As(err, &content) || !strings.Contains(err.Error(), file+":") || len(err.Error()) > 400+len(dir) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("%s with %.10q: %v", file, name, err)
			}
		}
	}
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
	dir := archivetest.Place(t, map[string]string{"Line1.2_TRAIN.ts": "@classLabel true a\n@data\n1:a\n", "Line1.2_TEST.ts": "@classLabel true a\n@data\n1:a\n"})
	d, err := Import(context.Background(), Options{Dir: dir}, nil)
	if err != nil || d.Name != "Line1.2" || len(d.Part(archive.Test)) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
}
