package paper

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// everyModel has a model of each sort.
var everyModel = []string{"eusn", "resn", "deepesn", "rnn", "arnn", "gru"}

// wantRefusal runs every protocol on a data set and expects an error from each.
func wantRefusal(t *testing.T, name string, d *archive.Dataset, says string, protocols ...Protocol) {
	t.Helper()
	for _, p := range protocols {
		st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(p, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), []*archive.Dataset{d}, Options{Plan: smallPlan(p, 2, 1, everyModel...)}, st)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), d.Name) {
			t.Errorf("%s, %s: %v, want a complaint about %s with %q", name, p, err, d.Name, says)
		}
		if len(st.data) > 0 {
			t.Errorf("%s, %s: something was stored before the complaint", name, p)
		}
		st.Close()
	}
}

func TestWrongData(t *testing.T) {
	only := func(keep func(i int, s *archive.Series) bool) *archive.Dataset {
		d := tones(45, 12)
		kept := d.Series[:0]
		for i := range d.Series {
			if keep(i, &d.Series[i]) {
				kept = append(kept, d.Series[i])
			}
		}
		d.Series = kept
		return d
	}
	wantRefusal(t, "one class", only(func(_ int, s *archive.Series) bool { return s.Label == 1 || s.Split == archive.Test }), `all training series are of class "low"`, Protocols...)
	wantRefusal(t, "no test part", only(func(_ int, s *archive.Series) bool { return s.Split == archive.Train }), "0 test series", Protocols...)
	names := tones(45, 12)
	names.Classes = append(names.Classes, "High", "Low", "Mid")
	for i := range names.Series {
		if names.Series[i].Split == archive.Test {
			names.Series[i].Label += 3
		}
	}
	wantRefusal(t, "other names of classes in the test part", names, "no test series is of a class that has training series", Protocols...)
	wantRefusal(t, "one series of a class", only(func(i int, s *archive.Series) bool { return s.Label != 2 || i < 3 || s.Split == archive.Test }),
		`class "mid" has one training series`, PaperExact, Best)
	wantRefusal(t, "too few to divide", only(func(i int, s *archive.Series) bool { return i < 6 || s.Split == archive.Test }), "cannot hold all 3 classes", PaperExact, Best)

	missing := tones(45, 12)
	missing.Series[7].Values[3] = float32(math.NaN())
	wantRefusal(t, "missing value", missing, `series "s7", sample 1, channel "b": value NaN is missing`, PaperExact, Best)
	infinite := tones(45, 12)
	infinite.Series[50].Values[0] = float32(math.Inf(1))
	wantRefusal(t, "infinite value", infinite, `series "s50"`, Protocols...)
	large := tones(45, 12)
	large.Series[50].Values[0] = 1e20
	wantRefusal(t, "a value no state can hold", large, `series "s50", sample 0, channel "a": value 1e+20 is out of range`, Protocols...)
	tokens := &archive.Dataset{Name: "words", Classes: []string{"a", "b"}, Series: []archive.Series{{ID: "1", Split: archive.Train, Tokens: []int32{1}}}}
	wantRefusal(t, "tokens", tokens, "embed the tokens first", Protocols...)
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	twice := tones(45, 12)
	if _, err := Run(t.Context(), []*archive.Dataset{twice, twice}, Options{Plan: smallPlan(PaperExact, 2, 1)}, st); err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("the same set twice: %v", err)
	}
	for _, p := range []Plan{
		{}, {nil, 2, 1, 1, 0}, {[]string{"lstm"}, 2, 1, 1, 0}, {[]string{"esn", "esn"}, 2, 1, 1, 0}, {PaperModels, 0, 1, 1, 0},
		{PaperModels, 201, 1, 1, 0}, {PaperModels, 2, 0, 1, 0}, {[]string{BankModel}, 0, 1, 1, 0},
		{TrainedModels, 2, 1, 0, 0}, {TrainedModels, 2, 1, 5001, 0}, {TrainedModels, 2, 1, 1, -1},
	} {
		if _, err := Run(t.Context(), []*archive.Dataset{twice}, Options{Plan: p}, st); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}

// The tasks made from a data set inherit its errors.
func TestWrongMemory(t *testing.T) {
	missing, one := tones(45, 12), tones(45, 12)
	missing.Series[7].Values[3] = float32(math.NaN())
	for i := range one.Series {
		one.Series[i].Label = 1
	}
	for _, c := range []struct {
		d    *archive.Dataset
		says string
	}{{missing, `series "s7", sample`}, {one, `all training series are of class "low"`}} {
		m, err := Memory(c.d, 80, 1)
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, "memory", m, c.says, PaperExact)
	}
	for _, d := range []*archive.Dataset{
		{Name: "empty", Channels: []string{"x"}},
		{Name: "words", Classes: []string{"a", "b"}, Series: []archive.Series{{ID: "1", Split: archive.Train, Tokens: []int32{1}}}},
	} {
		if m, err := Memory(d, 80, 1); err == nil {
			if err = Check([]*archive.Dataset{m}, smallPlan(PaperExact, 1, 1), NewSettings(PaperExact, 1)); err == nil {
				t.Errorf("%s: a task of nothing", d.Name)
			}
		}
	}
	short, err := Memory(oneSample(), 21, 1) // the least length: 20 samples of noise and the sample
	if err != nil {
		t.Fatal(err)
	}
	if cells, _ := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 2, 1, "esn")}, short); cells[0].Draws != 1 {
		t.Errorf("%+v", cells[0])
	}
}

// oneSample returns series of one sample; the first channel gives the class, the second
// never varies.
func oneSample() *archive.Dataset {
	d := tones(45, 12)
	for i := range d.Series {
		d.Series[i].Values = []float32{float32(d.Series[i].Label) - 1, 5}
	}
	return d
}

// Odd but valid input: classes without a training series, unlabeled series, series of one
// sample, constant channels.
func TestOddData(t *testing.T) {
	// The correct answer: the same data without the unlearned class, whose test series
	// only count in the denominator.
	plain := tones(45, 12)
	odd := tones(45, 12)
	odd.Classes = append([]string{"absent"}, odd.Classes...)
	for i := range odd.Series {
		odd.Series[i].Label++
	}
	odd.Series = append(odd.Series,
		archive.Series{ID: "x", Split: archive.Test, Label: 0, Values: []float32{1, 2}},
		archive.Series{ID: "y", Split: archive.Test, Label: -1, Values: []float32{1, 2}},
		archive.Series{ID: "z", Split: archive.Train, Label: -1, Values: []float32{1, 2}})
	for _, do := range []struct {
		protocol Protocol
		plan     Plan
	}{
		{PaperExact, smallPlan(PaperExact, 3, 2, "eusn", "deepesn")},
		{PaperExact, smallPlan(PaperExact, 1, 1, "gru")}, // its first configuration is the smallest of the three models
		{Best, smallPlan(Best, 3, 2, "eusn", "resn")},
		{Best, smallPlan(Best, 1, 1, "arnn")},
		{Bank, smallPlan(Bank, 0, 2)},
	} {
		_, a := runBench(t, do.protocol, Options{Plan: do.plan}, plain)
		cells, b := runBench(t, do.protocol, Options{Plan: do.plan}, odd)
		if len(b.draws) != do.plan.Draws*len(do.plan.Models) {
			t.Errorf("%v: %d draws", do, len(b.draws))
		}
		for k, want := range a.draws {
			if got := b.draws[k].Test; got != (Share{want.Test.Correct, 13}) {
				t.Errorf("%v: %+v of the odd set, want %d of 13 right", do, got, want.Test.Correct)
			}
		}
		if d := b.data["tones"]; d.Unknown != 1 || d.Asked != 13 || d.Series != 45 || cells[0].Learned == 0 {
			t.Errorf("%v: data %+v", do, d)
		}
		var table strings.Builder
		if err := WriteTable(&table, b, cells); err != nil || strings.Count(table.String(), "1 of 13 test series are of classes without a training series") != 1 {
			t.Errorf("%v: %v, the table does not say which series count as wrong:\n%s", do, err, &table)
		}
	}

	short := oneSample()
	for _, protocol := range Protocols {
		// One sample, no memory: every sort of model can predict all series.
		cells, _ := runBench(t, protocol, Options{Plan: smallPlan(protocol, 40, 2)}, short)
		if protocol == PaperExact {
			more, _ := runBench(t, protocol, Options{Plan: Plan{[]string{"rnn", "gru"}, 3, 1, 40, 0}}, short)
			cells = append(cells, more...)
		}
		for _, c := range cells {
			if c.Accuracy != 1 {
				t.Errorf("%s, %s: series of one sample that tells the class: %+v, want all right", protocol, c.Model, c)
			}
		}
	}
}

// Constant channels carry no information, for any value. The bank, which centers, gives
// the same result for each value; large values saturate reservoirs until no state varies,
// which is a bad configuration but no end of the search.
func TestConstantChannels(t *testing.T) {
	with := func(v float32) *archive.Dataset {
		d := tones(45, 12)
		for i := range d.Series {
			for k := 1; k < len(d.Series[i].Values); k += 2 {
				d.Series[i].Values[k] = v
			}
		}
		return d
	}
	_, zeros := runBench(t, Bank, Options{Plan: smallPlan(Bank, 0, 2)}, with(0))
	_, large := runBench(t, Bank, Options{Plan: smallPlan(Bank, 0, 2)}, with(1e6))
	wantSame(t, "the bank on a constant channel", large, zeros)

	guessed := 0
	for _, protocol := range []Protocol{PaperExact, Best} {
		cells, _ := runBench(t, protocol, Options{Plan: smallPlan(protocol, 8, 1)}, with(0))
		if cells[0].Accuracy < 0.6 { // of three classes
			t.Errorf("%s: %+v next to a channel of zeros", protocol, cells[0])
		}
		_, st := runBench(t, protocol, Options{Plan: smallPlan(protocol, 8, 1, "eusn", "deepesn")}, with(1e6))
		for _, trial := range st.trials {
			if trial.Validation == (Share{5, 15}) { // all of one class
				guessed++
			}
		}
	}
	if guessed == 0 {
		t.Error("no configuration was saturated: nothing was tested")
	}
	cells, _ := runBench(t, PaperExact, Options{Plan: Plan{TrainedModels, 1, 1, 2, 0}}, with(1e6))
	if len(cells) != 3 {
		t.Errorf("%+v", cells)
	}
}

// If no feature varies, the most frequent class is the answer, the first of equals, as
// with a ridge's intercept.
func TestGuess(t *testing.T) {
	for _, c := range []struct {
		classes string
		labels  []int
		want    int
	}{
		{"ab", []int{0, 1}, 0}, {"ab", []int{0, 1, 1}, 1}, {"ab", []int{0, 0, 1}, 0},
		{"abc", []int{0, 1, 2}, 0}, {"abc", []int{0, 1, 2, 2}, 2}, {"abc", []int{2, 1, 1, 2}, 1},
	} {
		h := majority(strings.Split(c.classes, ""), c.labels, 3)
		h.Name = "guess"
		if err := h.Validate(); err != nil {
			t.Error(err)
		}
		if got := h.Class(h.Intercept); got != c.want { // the scores: all weights are 0
			t.Errorf("%+v: class %d", c, got)
		}
	}
}

// One series per class is enough for the bank and too few for a validation part.
func TestOneSeriesAClass(t *testing.T) {
	d := tones(3, 30)
	wantRefusal(t, "one series a class", d, "has one training series", PaperExact, Best)
	cells, _ := runBench(t, Bank, Options{Plan: smallPlan(Bank, 0, 2)}, d)
	if c := cells[0]; c.Learned != 3 || c.Accuracy < 0.6 {
		t.Errorf("%+v, want better than chance, a third", c)
	}
}

// Missing values are filled by the bank: a channel without values becomes zeros, a series
// without any value an ordinary series.
func TestMissingValuesInBank(t *testing.T) {
	nan := float32(math.NaN())
	never, zeros := tones(45, 12), tones(45, 12)
	for i := range never.Series {
		for k := 1; k < len(never.Series[i].Values); k += 2 {
			never.Series[i].Values[k], zeros.Series[i].Values[k] = nan, 0
		}
	}
	do := Options{Plan: smallPlan(Bank, 0, 2)}
	_, a := runBench(t, Bank, do, never)
	_, b := runBench(t, Bank, do, zeros)
	wantSame(t, "a channel that is never known", a, b)

	gone := tones(45, 12)
	for _, i := range []int{7, 50} { // one of each part
		for k := range gone.Series[i].Values {
			gone.Series[i].Values[k] = nan
		}
	}
	if cells, _ := runBench(t, Bank, do, gone); cells[0].Accuracy < 0.6 {
		t.Errorf("two series without a value: %+v", cells[0])
	}
}
