package offlinecmd_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// unitsCSV is a table of four units with wear and a constant, in a European form.
func unitsCSV() string {
	var b strings.Builder
	b.WriteString("unit;datetime;temp [degC];wear;const;anomaly\n")
	for unit := range 4 {
		for i := range 60 {
			fmt.Fprintf(&b, "%d;2026-01-01 00:%02d:%02d;%d,%d;%d,5;7;%d,0\n", unit+1, i/6+10*unit, i%6*10, i*i%17, i%10, i*3%11+i, i/45)
		}
	}
	return b.String()
}

// A dry run prints a line for each column, and writes nothing but the mapping; the mapping
// gives the same columns for another file.
func TestImportDryRun(t *testing.T) {
	dir := t.TempDir()
	table, mapping, out := clitest.Write(t, filepath.Join(dir, "plant.csv"), unitsCSV()), filepath.Join(dir, "plant.yaml"), filepath.Join(dir, "plant.parquet")
	r := clitest.Must(t, "import", table, "--dry-run", "--write-mapping", mapping, "--classes", "0=normal,1=worn", "--output", out)
	for _, line := range []string{
		"240 samples of 4 streams, 3 channel(s), 0 sequence ends, 0 values missing",
		"times 2026-01-01T00:00:00Z to 2026-01-01T00:39:50Z, 0.1 Hz (every 10s)",
		"labels normal 180, worn 60",
		"unit         stream                                    name",
		"datetime     time                                      times",
		"temp [degC]  channel  degC  0 %      0    16.8  A",
		"const        channel        0 %      7    7     D      constant",
		"anomaly      label                                     name",
	} {
		if !strings.Contains(r.Out, line+"\n") {
			t.Errorf("the output lacks %q:\n%s", line, r.Out)
		}
	}
	r.Want(t, cli.ExitOK, "times without an offset are read as UTC", "wrote "+mapping, "nothing was written; without --dry-run: "+out)
	clitest.Exec(t, t.Context(), "evaluate", out, "--model", "m").Want(t, cli.ExitFailure)

	other := clitest.Write(t, filepath.Join(dir, "later.csv"), strings.Replace(unitsCSV(), ";wear;", ";abrasion;", 1))
	clitest.Exec(t, t.Context(), "import", other, "--mapping", mapping, "--dry-run").Want(t, cli.ExitIntegrity, `column "abrasion" is not in the mapping`)
	r = clitest.Must(t, "import", table, "--mapping", mapping, "--ignore", "const", "--output", out, "--json")
	var sum struct {
		Channels []string
		Table    struct {
			Rate    float64
			Columns []struct {
				Name, Kind string
				Profile    struct{ Grade string }
			}
		}
	}
	if err := json.Unmarshal([]byte(r.Out), &sum); err != nil || fmt.Sprint(sum.Channels) != "[temp [degC] wear]" || sum.Table.Rate != .1 {
		t.Errorf("%v: %s", err, r.Out)
	}
	if c := sum.Table.Columns[2]; c.Name != "temp [degC]" || c.Kind != "channel" || c.Profile.Grade != "A" {
		t.Errorf("column %+v", c)
	}
}

// The number of remaining samples is learned from a table with one command for the import.
func TestImportRemaining(t *testing.T) {
	dir := t.TempDir()
	table, out, model := clitest.Write(t, filepath.Join(dir, "plant.csv"), unitsCSV()), filepath.Join(dir, "plant.parquet"), filepath.Join(dir, "m")
	clitest.Must(t, "import", table, "--ignore", "const,anomaly", "--target", "remaining", "--cap", "40", "--output", out).
		Want(t, cli.ExitOK, "next: eusn-stream train "+out+" --target remaining")
	clitest.Must(t, "train", out, "--target", "remaining", "--policy", "window", "--length", "10", "--hop", "2", "--group", "stream", "--coverage", "0.8", "--members", "1", "--units", "10", "--output", model)
	r := clitest.Must(t, "evaluate", out, "--model", model)
	if !strings.Contains(r.Out, "remaining of 104 sequences, 104 of them known") {
		t.Errorf("evaluate prints\n%s", r.Out)
	}
}

// The training reads a table without a column stream, and reports the use of the columns.
func TestTrainTable(t *testing.T) {
	dir := t.TempDir()
	table := clitest.Write(t, filepath.Join(dir, "plant.csv"), unitsCSV())
	clitest.Must(t, "train", table, "--policy", "window", "--length", "10", "--hop", "5", "--members", "1", "--units", "10", "--output", filepath.Join(dir, "m")).
		Want(t, cli.ExitOK, "note: channels of "+table+" are temp [degC], wear, const; not unit (stream), datetime (time), anomaly (label)")
	r := clitest.Must(t, "import", table, "--ignore", "wear", "--output", filepath.Join(dir, "o"))
	if !strings.Contains(r.Out, "left out wear (by a pattern)\n") || !strings.Contains(r.Out, "grades C and D: const D (constant)\n") {
		t.Errorf("import prints\n%s", r.Out)
	}
}

func TestImportFlags(t *testing.T) {
	table := clitest.Write(t, filepath.Join(t.TempDir(), "a.csv"), "x,y\n1,2\n")
	for args, want := range map[string]string{
		"--rows lines":             `--rows "lines": want one of samples, runs`,
		"--decimal ;":              `--decimal ";": want one of ., ,`,
		"--classes 0":              "want pairs such as 0=normal,1=fault",
		"--columns a,,b":           "--columns: column 1 has no name",
		"--label ([ab":             "--label ",
		"--sensor x":               `--sensor "x", value ""`,
		"--cap -1":                 "--cap -1: want a positive number",
		"--mapping none.yaml":      "--mapping: none.yaml: no such file",
		"--train a.ts --decimal .": "--train and --test name the files of a data set",
	} {
		clitest.Exec(t, t.Context(), append([]string{"import", table}, strings.Fields(args)...)...).Want(t, cli.ExitUsage, want)
	}
	clitest.Exec(t, t.Context(), "import", "--train", "a.ts", "--decimal", ".").Want(t, cli.ExitUsage, "--decimal is for recordings")
}

// TestImportDates: the order of day and month is requested, and the mapping keeps it.
func TestImportDates(t *testing.T) {
	dir := t.TempDir()
	table, mapping := clitest.Write(t, filepath.Join(dir, "plant.csv"), "time,x,y\n03/04/2026 10:00,1,2\n03/04/2026 10:01,2,3\n"), filepath.Join(dir, "plant.yaml")
	clitest.Exec(t, t.Context(), "import", table, "--dry-run").Want(t, cli.ExitIntegrity, "is 03 the day or the month?", "--dates day-first")
	r := clitest.Must(t, "import", table, "--dry-run", "--dates", "day-first", "--zone", "+01:00", "--write-mapping", mapping)
	r.Want(t, cli.ExitOK, "times without an offset are read as +01:00")
	again := clitest.Must(t, "import", table, "--dry-run", "--mapping", mapping)
	for _, out := range []string{r.Out, again.Out} {
		if !strings.Contains(out, "times 2026-04-03T09:00:00Z to 2026-04-03T09:01:00Z, day-first") {
			t.Errorf("the times are in %s", out)
		}
	}
}
