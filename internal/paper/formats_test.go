package paper

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

var writeFormats = flag.Bool("write-formats", false, "write the files of testdata/formats that are not there")

// Stored results files of version 1 are read, and a repeated run finds all results: none
// is recomputed or written. See CONTRIBUTING.md, "When a format changes".
func TestStoredResults(t *testing.T) {
	for name, c := range map[string]struct {
		protocol Protocol
		plan     Plan
	}{
		"paper-1":   {PaperExact, smallPlan(PaperExact, 3, 2, "eusn", "resn")},
		"bank-1":    {Bank, smallPlan(Bank, 0, 2)},
		"compare-1": {Compare, smallPlan(Compare, 0, 2)},
	} {
		d, do := tones(45, 12), Options{Plan: c.plan}
		path := filepath.Join("testdata", "formats", name+".jsonl")
		if _, err := os.Stat(path); *writeFormats && os.IsNotExist(err) {
			_, st := runBench(t, c.protocol, do, d)
			text, err := os.ReadFile(st.path)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(path), 0o755)
			}
			if err == nil {
				err = os.WriteFile(path, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := ReadResults(path)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "results.jsonl")
		if err := os.WriteFile(copied, before, 0o644); err != nil {
			t.Fatal(err)
		}
		st, err := Resume(copied, rs.Settings())
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), []*archive.Dataset{d}, do, st)
		if err == nil {
			err = st.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(copied); err != nil || string(after) != string(before) {
			t.Errorf("%s: its run, asked for again, wrote %d bytes behind its %d (%v)", name, len(after)-len(before), len(before), err)
		}
	}
}
