package report

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// runCompare runs banks on invented data sets, two of which have published figures.
func runCompare(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "compare.jsonl")
	st, err := paper.Create(path, paper.NewSettings(paper.Compare, 1))
	if err != nil {
		t.Fatal(err)
	}
	o := paper.Options{Plan: paper.Plan{Models: []string{"euler"}, Draws: 2}, Origin: &paper.Origin{Program: "go test", Machine: "any", Began: "2026-11-22T12:00:00Z"}}
	_, err = paper.Run(t.Context(), []*archive.Dataset{waves("NATOPS", 2, 1), waves("Adiac", 4, 1), waves("Mine", 2, 3)}, o, st)
	if err := errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// Banks are shown next to all published classifiers, with ranks, differences and sources;
// a data set without published figures counts in none of them.
func TestBanksNextToPublished(t *testing.T) {
	r := load(t, Options{}, append([]string{runCompare(t)}, inputs...)...)
	files := readAll(t, r)
	html := files["report.html"]
	for _, want := range []string{
		`<h2 id="compare">`, "MiniROCKET", "QUANT", "0.806", // published on Adiac
		"Classifiers with a figure for every data set: average ranks", "All classifiers: average ranks",
		"mean accuracy", "<td>HIVE-COTE 2</td>", "Left out, not complete: Mine", "Left out, not complete: NATOPS, Mine",
		"https://github.com/time-series-machine-learning/tsml-eval", "resample: 0", "the bank euler", "draws 1 to 2",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, name := range []string{"Adiac", "NATOPS", "Mine"} {
		if files["tsml/EuSN-euler/Predictions/"+name+"/testResample1.csv"] == "" {
			t.Errorf("no tsml file of %s", name)
		}
	}
	s := r.Summary()
	if i := slices.IndexFunc(s.Protocols, func(p ProtocolSummary) bool { return p.Section == "compare" }); i < 0 || s.Protocols[i].Cells != 3 {
		t.Errorf("summary %+v", s.Protocols)
	}
}

// For an unfinished comparison, the report has the command to continue.
func TestUnfinishedComparison(t *testing.T) {
	path := edit(t, runCompare(t), func(kind string, fields map[string]any) {
		if kind == "cell" && fields["dataset"] == "Adiac" {
			clear(fields)
		}
	})
	r := load(t, Options{}, path)
	if html := readAll(t, r)["report.html"]; strings.Contains(html, "Tolerance") || strings.Contains(html, "no yardstick") || strings.Contains(html, "arXiv") || !strings.Contains(html, "Banks of Euler State Networks") {
		t.Error("a page of banks alone speaks of the paper")
	}
	if missing := strings.Join(r.missing(), "\n"); !strings.Contains(missing, "compare, Adiac, euler is not finished (0 trials, 2 draws): offline paper compare --resume continues") {
		t.Errorf("missing: %s", missing)
	}
}
