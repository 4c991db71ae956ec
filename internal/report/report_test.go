package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

func isNear(a, b, relative float64) bool { return math.Abs(a-b) <= relative*max(1, math.Abs(b)) }

// readAll returns every file's bytes.
func readAll(t *testing.T, r *Report) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, f := range r.Files() {
		data, err := f.Data()
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		files[f.Name] = string(data)
	}
	return files
}

func load(t *testing.T, o Options, paths ...string) *Report {
	t.Helper()
	r, err := Load(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// edit returns a copy of a results file with changed lines: change gets the kind and the
// fields of each line.
func edit(t *testing.T, from string, change func(kind string, fields map[string]any)) string {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var record map[string]map[string]any
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatal(err)
		}
		for kind, fields := range record {
			change(kind, fields)
			if len(fields) > 0 {
				_ = json.NewEncoder(&out).Encode(map[string]any{kind: fields})
			}
		}
	}
	to := filepath.Join(t.TempDir(), filepath.Base(from))
	if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestOrderOfFilesDoesNotMatter(t *testing.T) {
	want := readAll(t, load(t, Options{}, inputs...))
	other := slices.Clone(inputs)
	slices.Reverse(other)
	got := readAll(t, load(t, Options{}, other...))
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// The page is complete and needs no other files.
func TestPage(t *testing.T) {
	r := load(t, Options{Figures: "testdata/figures"}, inputs...)
	html := readAll(t, r)["report.html"]
	for _, bad := range []string{"<script", "<link", "@import", "url(", "ZgotmplZ", "NaN", "%!"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		target := m[1]
		switch {
		case strings.HasPrefix(target, "data:image/png;base64,"):
		case strings.HasPrefix(target, "#"):
			if !strings.Contains(html, `id="`+target[1:]+`"`) {
				t.Errorf("%s leads nowhere", target)
			}
		default:
			t.Errorf("the page wants %.40s", target)
		}
	}
	text := strings.NewReplacer("<span>", "", "</span>", "").Replace(html)
	for _, e := range r.entries() {
		for _, want := range []string{e.Command, paper.Spread(e.Accuracy, e.Deviation, e.Cell.Draws, 3), e.config(), e.seeds(), e.accuracies()} {
			if want == "" || !strings.Contains(text, want) {
				t.Errorf("%s, %s: the page lacks %q", e.Dataset, e.Model, want)
			}
		}
	}
	for _, want := range []string{
		"prefers-color-scheme:dark", "@media print", "2026-11-21", "Zen 3", "▼", "✓", "○", "not measured", "paper 0.442 ± 0.009",
		"1NN-DTW", "critical difference", "Friedman", "Fig. 4: long-term memorisation", `alt="Fig. 1: phase portraits"`, "Left out, not complete: ECG5000",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// For any name of a data set, task or machine, the page only shows the name, and files
// stay in the report's folder.
func TestHostileNames(t *testing.T) {
	const evil = `</td><script>alert(1)</script>"'&../../x`
	rename := func(kind string, fields map[string]any) {
		switch name := fields["dataset"].(type) {
		case string:
			if name == "Adiac" {
				fields["dataset"] = evil
			}
			fields["dataset"] = strings.Replace(fields["dataset"].(string), "Waves", evil, 1)
		}
		if kind == "origin" {
			fields["machine"], fields["program"] = evil, evil
		}
		if kind == "cell" {
			fields["command"] = evil
		}
	}
	var paths []string
	for _, in := range inputs {
		paths = append(paths, edit(t, in, rename))
	}
	files := readAll(t, load(t, Options{}, paths...))
	html := files["report.html"]
	if strings.Contains(html, "<script") || strings.Contains(html, "</td><sc") {
		t.Error("a name became a part of the page")
	}
	// In tables, and in the picture.
	if n := strings.Count(html, "&lt;script&gt;alert(1)"); n < 10 {
		t.Errorf("%d times the name, want it shown", n)
	}
	for name, text := range files {
		if path.Clean(name) != name || !filepath.IsLocal(filepath.FromSlash(name)) {
			t.Errorf("file %q", name)
		}
		if strings.HasPrefix(name, "tsml/") && strings.Count(name, "/") != 4 {
			t.Errorf("file %q, want tsml/classifier/Predictions/dataset/testResample", name)
		}
		if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(name, "tsml/") && strings.Count(first, ",") != 6 {
			t.Errorf("%s begins with %q", name, first)
		}
	}
}

func TestFileName(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"", ".", "..", "a", "A.b", ".a", "%", "%2E", "a/b", "a%2Fb", `a\b`, "a b", "ä", "\x00", "a,b"} {
		f := fileName(s)
		if old, twice := seen[f]; twice || f == "" || f[0] == '.' || strings.ContainsAny(f, "/\\, \x00") {
			t.Errorf("%q gives %q (%q does, too)", s, f, old)
		}
		seen[f] = s
	}
}

func TestLoadRefuses(t *testing.T) {
	results := "testdata/paper.jsonl"
	seed := edit(t, results, func(kind string, f map[string]any) {
		if kind == "settings" {
			f["seed"] = 2
		}
	})
	longer := edit(t, results, func(kind string, f map[string]any) {
		if kind == "trial" {
			f["seconds"] = 1
		}
	})
	data := edit(t, "testdata/best.jsonl", func(kind string, f map[string]any) {
		if kind == "data" && f["dataset"] == "Blink" {
			f["train"] = "another"
		}
	})
	future := edit(t, results, func(kind string, f map[string]any) {
		if kind == "settings" {
			f["format"] = 2
		}
	})
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	nothing := edit(t, results, func(kind string, f map[string]any) {
		if kind != "settings" {
			clear(f)
		}
	})
	for _, c := range []struct {
		paths []string
		o     Options
		says  string
	}{
		{[]string{results, results}, Options{}, "are the same"},
		{[]string{results, seed}, Options{}, "has results of seed 1 and arithmetic 1, " + seed + " of the same protocol paper-exact of seed 2"},
		{[]string{results, longer}, Options{}, "paper-exact, Adiac, eusn is in testdata/paper.jsonl and in"},
		{[]string{results, data}, Options{}, `data set "Blink" in`},
		{[]string{future}, Options{}, "has version 2"},
		{[]string{empty}, Options{}, "is empty"},
		{[]string{nothing}, Options{}, "hold no results yet"},
		{[]string{results}, Options{Figures: t.TempDir()}, "none of the files of offline paper figures"},
		{[]string{"testdata/none.jsonl"}, Options{}, "no such file"},
	} {
		if _, err := Load(c.paths, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.paths, err, c.says)
		}
	}
}

// The report lists missing values and unfinished and failed work, and shows the rest.
func TestMissing(t *testing.T) {
	old := edit(t, "testdata/paper.jsonl", func(kind string, f map[string]any) {
		switch {
		case kind == "origin":
			clear(f)
		case kind == "cell" && f["dataset"] == "ECG5000" && f["model"] == "gru":
			clear(f)
		case kind == "cell" && f["dataset"] == "ECG5000" && f["model"] == "resn":
			clear(f)
			f["dataset"], f["model"], f["missing"] = "ECG5000", "resn", "no <time>"
		}
	})
	r := load(t, Options{Date: "someday", Machine: "this one"}, old)
	files := readAll(t, r)
	tsml := 0
	for name := range files {
		if strings.HasPrefix(name, "tsml/") {
			tsml++
		}
	}
	if tsml != (4+4+2)*3 { // ECG5000 with two models
		t.Errorf("%d tsml files, want 30", tsml)
	}
	missing := strings.Join(r.Summary().Missing, "\n")
	for _, want := range []string{
		"paper.jsonl does not name its machine",
		"ECG5000, R-ESN: no <time>", "ECG5000, GRU is not finished (8 trials, 3 draws)",
	} {
		if !strings.Contains(missing, want) {
			t.Errorf("missing lacks %q:\n%s", want, missing)
		}
	}
	for _, want := range []string{"someday", "this one", "not recorded", "no &lt;time&gt;", "Without a result", "Not finished"} {
		if !strings.Contains(files["report.html"], want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// Energy is shown for cells with energy, and "not measured" for the rest; without any
// energy the column is absent.
func TestEnergy(t *testing.T) {
	path := edit(t, "testdata/best.jsonl", func(kind string, f map[string]any) {
		if kind == "cell" && f["dataset"] == "Blink" {
			f["energy"] = map[string]any{"cpu": map[string]any{"wh": 0.125, "above_idle_wh": -0.5}}
			f["search_energy"] = map[string]any{"gpu": map[string]any{"wh": 2, "above_idle_wh": 1}}
		}
	})
	if page := readAll(t, load(t, Options{}, "testdata/best.jsonl"))["report.html"]; !strings.Contains(page, "Energy was not measured") || strings.Contains(page, ", Wh</th>") {
		t.Error("where nothing was measured: want a sentence and no column")
	}
	files := readAll(t, load(t, Options{}, path))
	for _, want := range []string{", Wh</th>", "CPU 0.125 (-0.5)", "GPU 2 (1)", "not measured"} {
		if !strings.Contains(files["report.html"], want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	lines := strings.Split(files["table.csv"], "\n")
	if !strings.Contains(lines[1], ",,,,,,,,,1,eusn-stream") || !strings.Contains(lines[2], ",0.125,-0.5,,,,,2,1,1,eusn-stream") {
		t.Errorf("table:\n%s", files["table.csv"])
	}
}

// Each verdict has a distinct word and sign; Judge decides on the verdict.
func TestVerdicts(t *testing.T) {
	published := paper.Published{Accuracy: .5, Deviation: .01}
	for _, c := range []struct {
		v         *paper.Verdict
		deviation float64
		want      verdict
		larger    float64
	}{
		{nil, 0, unknown, 0},
		{&paper.Verdict{Paper: published, Gated: true, Within: true, Difference: .02}, .04, within, .5},
		{&paper.Verdict{Paper: published, Gated: true, Within: true, ByOurs: true, Difference: .04}, .04, byOurs, 1},
		{&paper.Verdict{Paper: published, Gated: true, Difference: .2}, .001, above, 20},
		{&paper.Verdict{Paper: published, Gated: true, Difference: -.2}, .02, below, -10},
		{&paper.Verdict{Paper: published, Difference: -.2, Note: "n"}, .02, noYardstick, -10},
	} {
		e := &entry{Cell: paper.Cell{Deviation: c.deviation}, Verdict: c.v}
		if got := e.verdict(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.v, got.word(), c.want.word())
		}
		if c.v != nil {
			if d, ok := e.inLarger(); !ok || !isNear(d, c.larger, 1e-12) {
				t.Errorf("%+v: %g larger deviations, want %g", c.v, d, c.larger)
			}
		}
	}
	e := &entry{Verdict: &paper.Verdict{Difference: 1}}
	if _, ok := e.inLarger(); ok {
		t.Error("a difference in units of nothing")
	}
}

// Bars cover the largest groups within the critical difference, and no group
// within another.
func TestBars(t *testing.T) {
	c := &compare.Ranking{Methods: []string{"a", "b", "c", "d", "e"}, Ranks: []float64{3.1, 1, 2, 4.9, 2.4}, CD: 1.5}
	d := diagramOf(c)
	x := func(rank float64) float64 { return 180 + (rank-1)/4*360 }
	var got [][2]float64
	for _, b := range d.Bars {
		got = append(got, [2]float64{b.X, b.To})
	}
	want := [][2]float64{{x(1) - 4, x(2.4) + 4}, {x(2) - 4, x(3.1) + 4}}
	if !slices.EqualFunc(got, want, func(a, b [2]float64) bool { return isNear(a[0], b[0], 1e-12) && isNear(a[1], b[1], 1e-12) }) {
		t.Errorf("bars %v, want %v", got, want)
	}
	if diagramOf(&compare.Ranking{Ranks: []float64{1, 2}}) != nil {
		t.Error("a diagram without a critical difference")
	}
}

// Classes that could not be learned are distinguished from learned classes.
func TestTSMLUnknownClasses(t *testing.T) {
	e := &entry{
		Cell: paper.Cell{Dataset: "d", Model: "eusn"}, section: &section{Title: "best"},
		Data:  paper.Data{Classes: 2, Unknown: 1, Truth: []int{0, -1, 1}},
		Draws: []paper.Draw{{Test: paper.Share{Correct: 1, Of: 3}, Predicted: []int{0, -1, 0}}},
	}
	text := string(e.tsml(0))
	if !strings.HasSuffix(text, ",-1,-1,-1,4,,-1,-1\n0,0,,1,0,0,0\n2,3,,0,0,0,1\n1,0,,1,0,0,0\n") {
		t.Error(text)
	}
}
