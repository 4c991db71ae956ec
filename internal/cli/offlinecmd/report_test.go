package offlinecmd_test

import (
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/internal/report"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// From an archive to a report, with the paper's figures and without.
func TestOfflineReport(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Adiac", 1, 24, 40), "--output", in("a.parquet"))
	clitest.Must(t, "offline", "paper", "tables", in("a.parquet"), "--models", "eusn,esn", "--configurations", "12", "--draws", "2", "--output", in("paper.jsonl"))
	clitest.Must(t, "offline", "paper", "tables", in("a.parquet"), "--protocol", "bank", "--draws", "1", "--output", in("bank.jsonl"))
	clitest.Must(t, "offline", "paper", "memory", "--models", "eusn", "--lengths", "30", "--configurations", "1", "--draws", "1", "--output", in("memory.jsonl"))
	args := []string{"offline", "paper", "report", in("paper.jsonl"), in("bank.jsonl"), in("memory.jsonl"), "--output", in("report")}

	var s struct {
		Page  string
		Files int
		report.Summary
	}
	clitest.Must(t, append(args, "--json")...).Parse(t, &s)
	// A table, results, page; two models of two draws and a bank of one.
	if s.Files != 3+2*2+1 || s.Page != filepath.Join(in("report"), "report.html") || s.Compared != 3 || len(s.Protocols) != 3 || len(s.Missing) != 0 || len(s.Date) != len("2006-01-02") {
		t.Errorf("report --json gives %+v", s)
	}
	page, err := os.ReadFile(s.Page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<span>--protocol</span> <span>paper-exact</span> <span>--models</span> <span>eusn</span>", hardware.MachineName(), "Fig. 4"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	table, err := os.Open(filepath.Join(in("report"), "table.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if rows, err := csv.NewReader(table).ReadAll(); err != nil || len(rows) != 1+4 {
		t.Errorf("table of %d rows, %v", len(rows), err)
	}

	again := clitest.Must(t, args...) // over the old one
	if !strings.Contains(again.Out, "paper-exact: 2 results") || !strings.Contains(again.Out, "outside: paper-exact Adiac eusn") {
		t.Errorf("printed:\n%s", again.Out)
	}
	if after, _ := os.ReadFile(s.Page); string(after) != string(page) {
		t.Error("the same files gave another page")
	}
	clitest.Exec(t, t.Context(), append(args, "--gate")...).Want(t, cli.ExitTolerance, "outside the tolerance of the paper: paper-exact Adiac eusn")
	clitest.Must(t, "offline", "paper", "report", in("bank.jsonl"), "--gate", "--output", in("bank"))
	clitest.Exec(t, t.Context(), "offline", "paper", "report", in("bank.jsonl"), "--output", in("report")).Want(t, cli.ExitFailure, "belongs to another report", "rm -r")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	clitest.Exec(t, ctx, args...).Want(t, cli.ExitInterrupted, "no new report.html")
}

func TestOfflineReportUsage(t *testing.T) {
	dir := t.TempDir()
	torn, empty := filepath.Join(dir, "torn"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{torn: `{"settings":{"protocol":"bank","seed":1,"arithmetic":1,"format":1}}` + "\n{", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Exec(t, t.Context(), "offline", "paper", "report").Want(t, cli.ExitUsage, "an argument is missing")
	clitest.Exec(t, t.Context(), "offline", "paper", "report", "none.jsonl").Want(t, cli.ExitFailure, "none.jsonl", "try: eusn-stream offline paper")
	clitest.Exec(t, t.Context(), "offline", "paper", "report", torn).Want(t, cli.ExitFailure, "the last line is incomplete", "still writing", "--resume")
	clitest.Exec(t, t.Context(), "offline", "paper", "report", empty).Want(t, cli.ExitIntegrity, "is empty")
	results := filepath.Join(dir, "r.jsonl")
	clitest.Must(t, "offline", "paper", "memory", "--models", "eusn", "--lengths", "30", "--configurations", "1", "--draws", "1", "--output", results)
	clitest.Exec(t, t.Context(), "offline", "paper", "report", results, "--output", empty).Want(t, cli.ExitFailure, "is not a folder", "try: another --output")
}
