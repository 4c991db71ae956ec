package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A name that would steer a terminal, or has no end, is refused where it comes
// in: by every reader, with file and line, and short.
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
			dir := place(t, map[string]string{file: fmt.Sprintf(form, name)})
			var err error
			if path := filepath.Join(dir, file); strings.HasSuffix(file, ".csv") {
				_, err = ImportRecording(t.Context(), RecordingImport{CSV: path, Out: filepath.Join(dir, "out")}, nil)
			} else {
				_, err = Import(t.Context(), ImportOptions{Train: path}, nil)
			}
			var content *ContentError
			if !errors.As(err, &content) || !strings.Contains(err.Error(), file+":") || len(err.Error()) > 400+len(dir) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("%s with %.10q: %v", file, name, err)
			}
		}
	}
}

// The same in archives that another program wrote.
func TestNamesOfArchives(t *testing.T) {
	for key, list := range map[string]string{keyClasses: `["%s","y"]`, keyChannels: `["%s","b"]`, keyProblem: "%s"} {
		for _, name := range []string{`a\u001b[31m`, strings.Repeat("x", 257)} {
			meta, columns := setMeta(), setColumns()
			meta[key] = fmt.Sprintf(list, name)
			if key == keyProblem {
				meta[key] = strings.ReplaceAll(meta[key], `\u001b`, "\x1b")
			}
			if key == keyChannels {
				columns[4].name = strings.ReplaceAll(name, `\u001b`, "\x1b")
			}
			if _, err := archiveBytes(foreign(t, meta, columns)); err == nil || !strings.Contains(err.Error(), "control character U+001B") && !strings.Contains(err.Error(), "257 bytes") {
				t.Errorf("%s of %.10q: %v", key, name, err)
			}
		}
	}
	d := smallDataset()
	d.Series[0].ID = "\x1b"
	wantError(t, WriteArchive(filepath.Join(t.TempDir(), "x"), d), "control character U+001B")
	for _, c := range []*RecordingChunk{smallChunk(3), smallChunk(3)} {
		c.Label[2] = "\x1b"
		wantError(t, c.check(len(c.Values)/3, false), `sample 2: label "\x1b" holds the control character`)
		c.Label[2], c.Stream[1] = "", strings.Repeat("x", 257)
		wantError(t, c.check(len(c.Values)/3, false), "sample 1: stream")
	}
}

// A series or channel without any value is reported at import and at training.
func TestAbsent(t *testing.T) {
	dir := place(t, map[string]string{
		"P_TRAIN.ts": "@problemName P\n@classLabel true a b\n@data\n1,2:?,?:a\n?,?:?,?:b\n3,5:?,?:b\n",
		"P_TEST.ts":  "@problemName P\n@classLabel true a b\n@data\n?,?:?,?:a\n",
	})
	d, err := Import(context.Background(), ImportOptions{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(d.Source.Warnings, "; ")
	for _, want := range []string{
		"1 series of the train part without a single value, the first train-1", "1 of 2 channels without a single value in the train part, the first c1",
		"1 series of the test part without a single value, the first test-0", "2 of 2 channels",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("warnings lack %q: %s", want, all)
		}
	}
	spec := reservoir.EulerBank(2)
	spec.Members, spec.Units = 1, 4
	m, report, err := Retrain(t.Context(), d, RetrainOptions{Spec: spec}, nil)
	if err != nil || report.Empty != 1 || len(report.Silent) != 1 || report.Silent[0] != "c1" {
		t.Fatalf("%+v, %v", report, err)
	}
	ev, err := Evaluate(t.Context(), m, d, EvaluateOptions{}, nil)
	if err != nil || ev.Empty != 1 {
		t.Errorf("%+v, %v", ev, err)
	}
}

// A value that no network takes is named with its place, before anything is
// computed from it.
func TestRetrainNamesTheValue(t *testing.T) {
	spec := reservoir.EulerBank(2)
	spec.Members, spec.Units = 1, 4
	for _, v := range []float32{1e30, -1.1e15} {
		d := smallDataset()
		d.Series[0].Values[3] = v
		_, _, err := Retrain(t.Context(), d, RetrainOptions{Spec: spec}, nil)
		wantError(t, err, fmt.Sprintf(`series %q, sample 1, channel %q: value %v is out of range, want a magnitude of at most 1e+15`, d.Series[0].ID, d.Channels[1], v))
		var content *ContentError
		if !errors.As(err, &content) {
			t.Error("no fault of the content")
		}
	}
	if math.Abs(reservoir.MaxInput) != 1e15 {
		t.Error("the bound is another one: mend the test")
	}
}
