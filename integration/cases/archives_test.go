package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// archiveReports are files to import, to train with and to evaluate.
func (r *rig) archiveReports() []report {
	train := func(archive string, args ...string) (string, int) {
		return r.command(append([]string{"offline", "retrain", "--archive", archive, "--bank", "tiny", "--out", archive + ".safetensors"}, args...)...)
	}
	windows := []string{"--policy", "window", "--length", "40", "--hop", "20"}
	return []report{
		{"A05", "accuracy 1, or a warning that c0 is left out", func(t *testing.T) outcome {
			r.folder(t, "A05-pico")
			said := r.must(t, "offline", "import", "A05-pico", "--out", "pico.parquet")
			text, code := train("pico.parquet")
			said += text
			if code != 0 {
				return held(false, "%s", said)
			}
			out := r.must(t, "offline", "evaluate", "--model", "pico.parquet.safetensors", "--archive", "pico.parquet")
			accuracy := regexp.MustCompile(`(?i)accuracy\D*([0-9.]+)`).FindStringSubmatch(out)
			warned := regexp.MustCompile(`(?i)(channel )?"?(c0|0)"?.*(left out|not used|ignored)`).FindString(said + out)
			return held(accuracy != nil && strings.HasPrefix(accuracy[1], "1") || warned != "", "accuracy %v, warned %q", accuracy, warned)
		}},
		{"A09", "channel x, class worn twice", func(t *testing.T) outcome {
			said, code := r.command("offline", "import", "--csv", r.input(t, "A09-quotes-after-blank.csv"), "--out", "quotes.parquet")
			if code != 0 {
				return held(false, "%s", said)
			}
			rec := tableOf(t, r.path("quotes.parquet"))[0]
			labels := columnTexts(rec, "label")
			return held(slices.Equal(labels, []string{"worn", "worn"}) && len(columnTexts(rec, "x")) == 2, "labels %q, columns %v", labels, columnNames(rec))
		}},
		{"A10", "a warning at the least: the times are of 1970, 1e+09 Hz", func(t *testing.T) outcome {
			said, code := r.command("offline", "import", "--csv", r.input(t, "A10-time-in-seconds.csv"), "--out", "seconds.parquet")
			if code == 0 {
				text, _ := train("seconds.parquet", windows...)
				said += text
			}
			warned := regexp.MustCompile(`(?i)[^\n]*(1970|seconds since|unit of)[^\n]*`).FindString(said)
			return held(warned != "" || code != 0, "%d, warned %q in %s", code, warned, said)
		}},
		{"A11", "refused, as the CSV import does", func(t *testing.T) outcome {
			r.input(t, "A11-seq-descending.parquet")
			said, code := train("A11-seq-descending.parquet", windows...)
			return held(code != 0 && strings.Contains(said, "seq"), "%d, %s", code, said)
		}},
		{"A12", "both files of a data set whose name has a dot are found", func(t *testing.T) outcome {
			r.folder(t, "A12-dots")
			said, code := r.command("offline", "import", "A12-dots", "--out", "dots.parquet")
			return held(code == 0, "%d, %s", code, said)
		}},
		{"A19", "class a,b", func(t *testing.T) outcome {
			return r.arff(t, "comma", string(r.read(t, "A19_TRAIN.arff")), "a,b")
		}},
		{"A19 quote", "class it's without a backslash", func(t *testing.T) outcome {
			text := strings.ReplaceAll(string(r.read(t, "A19_TRAIN.arff")), "a,b", `it\'s`)
			return r.arff(t, "quote", text, "it's")
		}},
		{"A20", "the error names the column time; int96 is read, or named", func(t *testing.T) outcome {
			r.input(t, "A20-time-int64.parquet")
			said, code := train("A20-time-int64.parquet", windows...)
			return held(code == 0 || strings.Contains(said, `"time"`) || strings.Contains(said, "column time"), "%d, %s", code, said)
		}},
		{"A21", "the column meta is passed over", func(t *testing.T) outcome {
			r.input(t, "A21-struct-column.parquet")
			said, code := train("A21-struct-column.parquet", windows...)
			return held(code == 0, "%d, %s", code, said)
		}},
		{"A23", "an error or a warning that no label fits a stream or time", func(t *testing.T) outcome {
			r.must(t, "offline", "import", "--csv", r.input(t, "A23-recording.csv"), "--out", "nl.parquet")
			said, code := train("nl.parquet", append(windows, "--labels", r.input(t, "A23-labels-of-other-streams.csv"))...)
			return held(regexp.MustCompile(`(?i)label[^\n]*(fit|match|belong)`).MatchString(said), "%d, %s", code, said)
		}},
	}
}

func (r *rig) read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.cases, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// arff imports a data set and wants its first class.
func (r *rig) arff(t *testing.T, name, text, want string) outcome {
	t.Helper()
	if err := os.MkdirAll(r.path(name), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write(t, name+"/X_TRAIN.arff", text)
	r.write(t, name+"/X_TEST.arff", text)
	said, code := r.command("offline", "import", name, "--out", name+".parquet")
	if code != 0 {
		return held(false, "%d, %s", code, said)
	}
	var labels []string
	for _, rec := range tableOf(t, r.path(name+".parquet")) {
		labels = append(labels, columnTexts(rec, "label")...)
	}
	return held(slices.Contains(labels, want), "labels %s", fmt.Sprintf("%q", labels))
}
