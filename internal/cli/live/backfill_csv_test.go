package live_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A CSV file has the values of the JSON lines for the same predictions, including
// optional values. A value that the readout does not give has no column.
func TestBackfillColumns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	set, recording := clitest.ImportTiny(t, 2), in("old.parquet")
	clitest.Must(t, "import", clitest.Write(t, in("old.csv"), clitest.RecordingCSV(3, 400)), "--output", recording)
	for name, one := range map[string]struct {
		archive string
		train   []string
		columns []string
	}{
		"plain":   {set, nil, nil},
		"all":     {set, []string{"--coverage", "0.8", "--drift", "--early", "8", "--decide"}, []string{"set", "novelty", "novelty_p", "inputs", "change"}},
		"numbers": {recording, []string{"--policy", "count", "--length", "10", "--target", "seq"}, []string{"value", "low", "high"}},
	} {
		model, csvFile, lines := in(name), in(name+"-out.csv"), in(name+"-out.jsonl")
		clitest.Must(t, append([]string{"train", one.archive, "--bank", "euler", "--members", "2", "--units", "5", "--output", model}, one.train...)...)
		for _, out := range []string{csvFile, lines} {
			clitest.Must(t, "predict", one.archive, "--model", model, "--output", out)
		}
		rows, err := csv.NewReader(bytes.NewReader(clitest.Read(t, csvFile))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		said := linesIn(t, lines)
		all := append([]string{"stream", "time", "class", "probability", "score", "integrity", "flags", "seq", "row", "input", "received", "scores"}, one.columns...)
		if !slices.Equal(rows[0], all) || len(rows) != len(said)+1 || len(said) < 10 {
			t.Fatalf("%s: %d rows of %q, want %d of %q", name, len(rows)-1, rows[0], len(said), all)
		}
		full := map[string]int{}
		for i, row := range rows[1:] {
			for j, column := range rows[0] {
				if column == "scores" { // numbers with blanks between, not an array
					continue
				}
				want := ""
				switch v := said[i][column].(type) {
				case string:
					want = v
				case float64:
					want = strconv.FormatFloat(float64(float32(v)), 'g', -1, 32)
				case []any:
					b, err := json.Marshal(v)
					if err != nil {
						t.Fatal(err)
					}
					want = string(b)
				}
				if row[j] != want {
					t.Errorf("%s, prediction %d: %s is %q, want %q", name, i, column, row[j], want)
				}
				if want != "" {
					full[column]++
				}
			}
		}
		for _, column := range one.columns {
			if full[column] == 0 {
				t.Errorf("%s: no prediction has a %s", name, column)
			}
		}
	}
}
