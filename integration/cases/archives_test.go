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

// archiveReports are archives to import, train and evaluate with.
func (r *rig) archiveReports() []report {
	train := func(archive string, args ...string) (string, int) {
		return r.runProgram(append([]string{"train", archive, "--bank", "tiny", "--output", archive + ".safetensors"}, args...)...)
	}
	windows := []string{"--policy", "window", "--length", "40", "--hop", "20"}
	return []report{
		{"A05", "accuracy 1, or a warning that c0 is left out", func(t *testing.T) outcome {
			r.copyFolder(t, "A05-pico")
			output := r.mustRun(t, "import", "A05-pico", "--output", "pico.parquet")
			text, code := train("pico.parquet")
			output += text
			if code != 0 {
				return newOutcome(false, "%s", output)
			}
			out := r.mustRun(t, "evaluate", "--model", "pico.parquet.safetensors", "pico.parquet")
			accuracy := regexp.MustCompile(`(?i)accuracy\D*([0-9.]+)`).FindStringSubmatch(out)
			warned := regexp.MustCompile(`(?i)(channel )?"?(c0|0)"?.*(left out|not used|ignored)`).FindString(output + out)
			return newOutcome(accuracy != nil && strings.HasPrefix(accuracy[1], "1") || warned != "", "accuracy %v, warned %q", accuracy, warned)
		}},
		{"A09", "channel x, class worn twice", func(t *testing.T) outcome {
			output, code := r.runProgram("import", r.copyInput(t, "A09-quotes-after-blank.csv"), "--output", "quotes.parquet")
			if code != 0 {
				return newOutcome(false, "%s", output)
			}
			rec := tableOf(t, r.pathOf("quotes.parquet"))[0]
			labels := columnTexts(rec, "label")
			return newOutcome(slices.Equal(labels, []string{"worn", "worn"}) && len(columnTexts(rec, "x")) == 2, "labels %q, columns %v", labels, columnNames(rec))
		}},
		{"A10", "a warning at the least: the times are of 1970, 1e+09 Hz", func(t *testing.T) outcome {
			output, code := r.runProgram("import", r.copyInput(t, "A10-time-in-seconds.csv"), "--output", "seconds.parquet")
			if code == 0 {
				text, _ := train("seconds.parquet", windows...)
				output += text
			}
			warned := regexp.MustCompile(`(?i)[^\n]*(1970|seconds since|unit of)[^\n]*`).FindString(output)
			return newOutcome(warned != "" || code != 0, "%d, warned %q in %s", code, warned, output)
		}},
		{"A11", "refused, as the CSV import does", func(t *testing.T) outcome {
			r.copyInput(t, "A11-seq-descending.parquet")
			output, code := train("A11-seq-descending.parquet", windows...)
			return newOutcome(code != 0 && strings.Contains(output, "seq"), "%d, %s", code, output)
		}},
		{"A12", "both files of a data set whose name has a dot are found", func(t *testing.T) outcome {
			r.copyFolder(t, "A12-dots")
			output, code := r.runProgram("import", "A12-dots", "--output", "dots.parquet")
			return newOutcome(code == 0, "%d, %s", code, output)
		}},
		{"A19", "class a,b", func(t *testing.T) outcome {
			return r.importARFF(t, "comma", string(r.readFile(t, "A19_TRAIN.arff")), "a,b")
		}},
		{"A19 quote", "class it's without a backslash", func(t *testing.T) outcome {
			text := strings.ReplaceAll(string(r.readFile(t, "A19_TRAIN.arff")), "a,b", `it\'s`)
			return r.importARFF(t, "quote", text, "it's")
		}},
		{"A20", "the error names the column time; int96 is read, or named", func(t *testing.T) outcome {
			r.copyInput(t, "A20-time-int64.parquet")
			output, code := train("A20-time-int64.parquet", windows...)
			return newOutcome(code == 0 || strings.Contains(output, `"time"`) || strings.Contains(output, "column time"), "%d, %s", code, output)
		}},
		{"A21", "the column meta is passed over", func(t *testing.T) outcome {
			r.copyInput(t, "A21-struct-column.parquet")
			output, code := train("A21-struct-column.parquet", windows...)
			return newOutcome(code == 0, "%d, %s", code, output)
		}},
		{"A23", "an error or a warning that no label fits a stream or time", func(t *testing.T) outcome {
			r.mustRun(t, "import", r.copyInput(t, "A23-recording.csv"), "--output", "nl.parquet")
			output, code := train("nl.parquet", append(windows, "--labels", r.copyInput(t, "A23-labels-of-other-streams.csv"))...)
			return newOutcome(regexp.MustCompile(`(?i)label[^\n]*(fit|match|belong)`).MatchString(output), "%d, %s", code, output)
		}},
	}
}

func (r *rig) readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.cases, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// importARFF imports a data set and checks its first class.
func (r *rig) importARFF(t *testing.T, name, text, want string) outcome {
	t.Helper()
	if err := os.MkdirAll(r.pathOf(name), 0o755); err != nil {
		t.Fatal(err)
	}
	r.writeFile(t, name+"/X_TRAIN.arff", text)
	r.writeFile(t, name+"/X_TEST.arff", text)
	output, code := r.runProgram("import", name, "--output", name+".parquet")
	if code != 0 {
		return newOutcome(false, "%d, %s", code, output)
	}
	var labels []string
	for _, rec := range tableOf(t, r.pathOf(name+".parquet")) {
		labels = append(labels, columnTexts(rec, "label")...)
	}
	return newOutcome(slices.Contains(labels, want), "labels %s", fmt.Sprintf("%q", labels))
}
