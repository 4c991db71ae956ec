package offline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// encoded returns parts as options have them.
func encoded(t *testing.T, parts *groups.Parts) []byte {
	t.Helper()
	of := *parts
	of.Format = 1
	text, err := of.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parsedRule(t *testing.T, text string) *groups.Rule {
	t.Helper()
	r, err := groups.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fleet is a recording of machines in halls, as another tool may write it: two streams a machine, of twelve sequences
// of 20 samples each, fast or slow. In the last hall the labels are swapped, so that training on the first halls does
// not help. Each hall has a day of its own, except for the last sequence of a stream: its second half is on the next
// day; column machine changes with it.
func fleet(t *testing.T, halls int) string {
	t.Helper()
	const sequences, length = 12, 20
	rng := rand.New(rand.NewPCG(7, 7))
	var c struct {
		stream, label, machine []string
		seq                    []int
		at                     []string
		a                      []float64
		end                    []bool
	}
	day := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	for round := range sequences * length {
		for hall := range halls {
			for p := range 2 {
				n := round / length
				fast := (n+p)%2 == 0
				v := math.Sin(map[bool]float64{true: 1.5, false: .4}[fast]*float64(round)+float64(hall)) + .2*rng.NormFloat64()
				if hall == halls-1 {
					fast = !fast
				}
				at, machine := day.AddDate(0, 0, hall).Add(time.Duration(round)*time.Second), fmt.Sprintf("m%d", hall)
				if round >= sequences*length-length/2 {
					at, machine = at.AddDate(0, 0, 1), "moved"
				}
				c.stream, c.seq = append(c.stream, fmt.Sprintf("hall%d-p%d", hall, p)), append(c.seq, round+1)
				c.label = append(c.label, map[bool]string{true: "fast", false: "slow"}[fast])
				c.machine, c.at, c.a = append(c.machine, machine), append(c.at, at.Format(time.RFC3339)), append(c.a, v)
				c.end = append(c.end, round%length == length-1)
			}
		}
	}
	meta := map[string]string{"eusn.archive": "recording", "eusn.version": "1", "eusn.problem": "fleet", "eusn.channels": `["a"]`, "eusn.provenance": `{}`}
	path := filepath.Join(t.TempDir(), "fleet.parquet")
	if err := os.WriteFile(path, archivetest.Foreign(t, meta, []archivetest.Column{
		{"stream", archivetest.Text, rowsOf(c.stream)}, {"seq", arrow.PrimitiveTypes.Int64, rowsOf(c.seq)},
		{"time", arrow.FixedWidthTypes.Timestamp_us, rowsOf(c.at)}, {"a", archivetest.Number, rowsOf(c.a)},
		{"end", arrow.FixedWidthTypes.Boolean, rowsOf(c.end)}, {"label", archivetest.Text, rowsOf(c.label)},
		{"machine", archivetest.Text, rowsOf(c.machine)}, {"number", arrow.PrimitiveTypes.Int32, rowsOf(c.seq)},
	}), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Groups of a recording by the names of streams, by a column and by day: each is left out at once, sequences across
// two are left out of all, and the worst is first.
func TestRecordingByGroup(t *testing.T) {
	const halls = 5
	path := fleet(t, halls)
	for _, c := range []struct {
		rule, worst string
		across      int
	}{{"^(hall[0-9]+)-", "hall4", 0}, {"machine", "m4", 2 * halls}, {"day", "2026-03-05", 2 * halls}} {
		rule := parsedRule(t, c.rule)
		m, r, err := retrainRecording(t.Context(), path, RetrainOptions{Spec: smallBank(1), Groups: rule.String()}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		g := r.ByGroup
		if len(g.Groups) != halls || g.Across != c.across || r.Sequences != 24*halls-c.across || len(g.Alone) > 0 || g.Plain == nil {
			t.Errorf("%s: %d sequences, %+v", c.rule, r.Sequences, g)
			continue
		}
		n, correct, mean := 0, 0, 0.
		for _, one := range g.Groups {
			n, correct, mean = n+one.Sequences, correct+one.Correct, mean+one.Accuracy/halls
		}
		worst := g.Groups[0]
		// 1e-12: rounding of a few sums.
		if n != r.Sequences || worst.Group != c.worst || worst.Accuracy > .2 || g.Groups[1].Accuracy < .7 ||
			math.Abs(g.Accuracy-float64(correct)/float64(n)) > 1e-12 || math.Abs(g.Mean-mean) > 1e-12 || *g.Plain < g.Accuracy {
			t.Errorf("%s: %+v, plain %g", c.rule, g, *g.Plain)
		}
		if want := r.Readout.String() + "; " + g.String(); m.Training.Alpha != want {
			t.Errorf("%s: the model says %q, want %q", c.rule, m.Training.Alpha, want)
		}
		ev, err := evaluateRecording(t.Context(), m, path, EvaluateOptions{Groups: rule.String()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, correct = 0, 0
		for _, one := range ev.ByGroup.Groups {
			n, correct = n+one.Sequences, correct+one.Correct
		}
		if ev.ByGroup.Across != c.across || n+c.across != ev.Labeled || correct > ev.Correct || correct < ev.Correct-c.across || len(ev.ByGroup.Groups) != halls {
			t.Errorf("%s: evaluated: %+v, of %d sequences %d right", c.rule, ev.ByGroup, ev.Labeled, ev.Correct)
		}
	}
}

// The plain accuracy equals the accuracy of a training without groups, with the same alpha: also if windows of one
// part are left out together.
func TestPlainAccuracyIsThatWithoutGroups(t *testing.T) {
	path := fleet(t, 4)
	for _, p := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Window, Length: 16, Hop: 4}} {
		opt := RetrainOptions{Spec: smallBank(1), Policy: p, RidgeOnly: true, Alphas: []float64{3}, Groups: "^(hall.)"}
		_, r, err := retrainRecording(t.Context(), path, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		opt.Groups, opt.Alphas = "", []float64{3, 1e12}
		_, plain, err := retrainRecording(t.Context(), path, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := plain.Readout.Trials[0]; *r.ByGroup.Plain != want.Accuracy || r.Groups != plain.Groups {
			t.Errorf("%s: plain accuracy %g of %d groups, without groups %g of %d", p.Kind, *r.ByGroup.Plain, r.Groups, want.Accuracy, plain.Groups)
		}
	}
}

// A data set has groups in a column, and by the ids of its series.
func TestDataSetByGroup(t *testing.T) {
	columns := []archivetest.Column{
		{"id", archivetest.Text, `["a1","a2","b1","b2","c1","c2"]`}, {"split", archivetest.Text, `["train","train","train","train","train","test"]`},
		{"label", archivetest.Text, `["x","y","x","y","x","y"]`}, {"length", arrow.PrimitiveTypes.Int32, `[2,2,2,2,2,2]`},
		{"a", archivetest.List, `[[1,2],[4,5],[1,3],[5,4],[2,1],[4,5]]`}, {"b", archivetest.List, `[[1,2],[4,5],[1,3],[5,4],[2,1],[4,5]]`},
		{"person", arrow.PrimitiveTypes.Int64, `[1,1,2,2,3,3]`}, {"none", archivetest.Text, `[null,"p","p","q","q","q"]`},
		{"bad", arrow.PrimitiveTypes.Float64, `[1,1,2,2,3,3]`}, {"control", archivetest.Text, "[\"a\",\"b\\u0007\",\"c\",\"d\",\"e\",\"f\"]"},
	}
	path := filepath.Join(t.TempDir(), "set.parquet")
	if err := os.WriteFile(path, archivetest.Foreign(t, archivetest.SetMeta(), columns), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := archive.ReadDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"person", "^([a-z])", "stream"} {
		rule := parsedRule(t, text)
		if column, ok := rule.Column(); ok {
			if err := d.SetGroups(path, column); err != nil {
				t.Fatal(err)
			}
		}
		m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Groups: rule.String()})
		want := map[string]int{"person": 3, "^([a-z])": 3, "stream": 5}[text]
		if g := r.ByGroup; len(g.Groups) != want || len(g.Alone) != 0 {
			t.Errorf("%s: %+v", archivetest.Text, r.ByGroup)
		}
		ev := evaluated(t, m, d, EvaluateOptions{Groups: rule.String()})
		if g := ev.ByGroup.Groups; len(g) != 1 || g[0].Sequences != 1 || g[0].Group != map[string]string{"person": "3", "^([a-z])": "c", "stream": "c2"}[text] {
			t.Errorf("%s: test part: %+v", text, g)
		}
	}
	// A class of only one group is reported, and its series count as wrong.
	d.Series[1].Label, d.Series[3].Label = 0, 1
	_, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Groups: "person"})
	if a := r.ByGroup.Alone; len(a) != 1 || a[0] != (groups.Alone{Class: "y", Group: "2", Sequences: 1}) {
		t.Errorf("a class of one group: %+v", a)
	}
	for column, want := range map[string]string{
		"machine": `has no column "machine", whose values are to be the groups; it has a, b, bad, control, id,`,
		"bad":     `column "bad": stored as DOUBLE, want text: cast it`,
		"control": `column "control", row 1: group`,
		"a":       `column "a": want a plain value, got a list`,
	} {
		archivetest.WantError(t, d.SetGroups(path, column), want)
	}
	if err := d.SetGroups(path, "none"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"none": `1 labeled sequences are in no group: the first is of series "a1", which has no value in column none`,
		"^(a)": `3 labeled sequences are in no group: the first is of series "b1", which does not match ^(a)`,
		"day":  `5 labeled sequences are in no group: the first is of series "a1", which has samples without a time`,
		"()":   "does not match (), or what the parentheses hold is empty",
	} {
		_, _, err := Retrain(t.Context(), d, RetrainOptions{Spec: smallBank(2), Groups: text}, nil)
		archivetest.WantError(t, err, want)
	}
	for i := range d.Series {
		d.Series[i].Group = "one"
	}
	_, _, err = Retrain(t.Context(), d, RetrainOptions{Spec: smallBank(2), Groups: "person"}, nil)
	archivetest.WantError(t, err, `all 5 sequences are of the one group "one" by person: leaving it out leaves nothing to learn from`)
	_, err = RetrainShard(t.Context(), d, RetrainOptions{Spec: smallBank(2), Groups: "person"}, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil)
	archivetest.WantError(t, err, "a group has sequences in several shards")
}

// The files of eusn-stream record can have a column of groups.
func TestRecordedByGroup(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	never := func(int) bool { return false }
	writeRecorded(t, a, 0, 250, never, nil)
	writeRecorded(t, b, 250, 800, never, nil)
	opt := RetrainOptions{Spec: smallBank(2), Groups: "stream"}
	_, r, err := Retrain(t.Context(), archive.RecordingFiles{Paths: []string{a, b}}, opt, nil)
	if err != nil || len(r.ByGroup.Groups) != 2 || r.ByGroup.Groups[0].Sequences != 40 {
		t.Errorf("%+v, %v", r.ByGroup, err)
	}
	opt.Groups = "eusn_key"
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{a, b}}, opt, nil)
	archivetest.WantError(t, err, `all 80 sequences are of the one group "k" by eusn_key`)
	opt.Groups = "eusn_row"
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{a, b}}, opt, nil)
	archivetest.WantError(t, err, `all 80 sequences are of the one group "0" by eusn_row`)
	opt.Groups = "eusn_input" // another in each sample
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{a, b}}, opt, nil)
	archivetest.WantError(t, err, "each of the 80 labeled sequences has samples of several groups by eusn_input")
	opt.Groups = "site"
	_, _, err = Retrain(t.Context(), archive.RecordingFiles{Paths: []string{a, b}}, opt, nil)
	archivetest.WantError(t, err, `no column "site"`)
}
