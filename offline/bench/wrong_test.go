package bench

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
)

// refused runs every protocol on a data set and wants each to complain.
func refused(t *testing.T, name string, d *offline.Dataset, says string, protocols ...Protocol) {
	t.Helper()
	for _, p := range protocols {
		st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(p, 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Run(t.Context(), []*offline.Dataset{d}, Options{Plan: plan(p, 2, 1, "eusn")}, st)
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
	only := func(keep func(i int, s *offline.Series) bool) *offline.Dataset {
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
	refused(t, "one class", only(func(_ int, s *offline.Series) bool { return s.Label == 1 || s.Split == offline.Test }), `all training series are of class "low"`, Protocols...)
	refused(t, "no test part", only(func(_ int, s *offline.Series) bool { return s.Split == offline.Train }), "0 test series", Protocols...)
	refused(t, "one series of a class", only(func(i int, s *offline.Series) bool { return s.Label != 2 || i < 3 || s.Split == offline.Test }),
		`class "mid" has one training series`, PaperExact, Best)
	refused(t, "too few to divide", only(func(i int, s *offline.Series) bool { return i < 6 || s.Split == offline.Test }), "cannot hold all 3 classes", PaperExact, Best)

	missing := tones(45, 12)
	missing.Series[7].Values[3] = float32(math.NaN())
	refused(t, "missing value", missing, `series "s7", sample 1, channel "b": value NaN is missing`, PaperExact, Best)
	infinite := tones(45, 12)
	infinite.Series[50].Values[0] = float32(math.Inf(1))
	refused(t, "infinite value", infinite, `series "s50"`, Protocols...)
	large := tones(45, 12)
	large.Series[50].Values[0] = 1e20
	refused(t, "a value no state can hold", large, `series "s50", sample 0, channel "a": value 1e+20 is out of range`, Protocols...)
	tokens := &offline.Dataset{Name: "words", Classes: []string{"a", "b"}, Series: []offline.Series{{ID: "1", Split: offline.Train, Tokens: []int32{1}}}}
	refused(t, "tokens", tokens, "embed the tokens first", Protocols...)
	st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(PaperExact, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	twice := tones(45, 12)
	if _, err := Run(t.Context(), []*offline.Dataset{twice, twice}, Options{Plan: plan(PaperExact, 2, 1)}, st); err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("the same set twice: %v", err)
	}
	for _, p := range []Plan{
		{}, {nil, 2, 1, 1, 0}, {[]string{"lstm"}, 2, 1, 1, 0}, {[]string{"esn", "esn"}, 2, 1, 1, 0}, {PaperModels, 0, 1, 1, 0},
		{PaperModels, 201, 1, 1, 0}, {PaperModels, 2, 0, 1, 0}, {[]string{BankModel}, 0, 1, 1, 0},
		{TrainedModels, 2, 1, 0, 0}, {TrainedModels, 2, 1, 5001, 0}, {TrainedModels, 2, 1, 1, -1},
	} {
		if _, err := Run(t.Context(), []*offline.Dataset{twice}, Options{Plan: p}, st); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}

// What is odd but right: classes without a training series, unlabelled series,
// series of one sample, channels that never vary.
func TestOddData(t *testing.T) {
	// The right answer: the same data without the class nobody learnt, whose test
	// series only count in the denominator.
	plain := tones(45, 12)
	odd := tones(45, 12)
	odd.Classes = append([]string{"absent"}, odd.Classes...)
	for i := range odd.Series {
		odd.Series[i].Label++
	}
	odd.Series = append(odd.Series,
		offline.Series{ID: "x", Split: offline.Test, Label: 0, Values: []float32{1, 2}},
		offline.Series{ID: "y", Split: offline.Test, Label: -1, Values: []float32{1, 2}},
		offline.Series{ID: "z", Split: offline.Train, Label: -1, Values: []float32{1, 2}})
	for _, protocol := range Protocols {
		do := Options{Plan: plan(protocol, 3, 2, "eusn")}
		_, a := benched(t, protocol, do, plain)
		cells, b := benched(t, protocol, do, odd)
		for k, want := range a.draws {
			if got := b.draws[k].Test; got != (Share{want.Test.Correct, 13}) {
				t.Errorf("%s: %+v of the odd set, want %d of 13 right", protocol, got, want.Test.Correct)
			}
		}
		if d := b.data["tones"]; d.Unknown != 1 || d.Asked != 13 || d.Series != 45 || cells[0].Learnt == 0 {
			t.Errorf("%s: data %+v", protocol, d)
		}
	}

	short := tones(45, 12)
	for i := range short.Series {
		s := &short.Series[i]
		s.Values = []float32{float32(s.Label) - 1, 5} // the second channel never varies
	}
	for _, protocol := range Protocols {
		cells, _ := benched(t, protocol, Options{Plan: plan(protocol, 40, 2, "eusn")}, short)
		if cells[0].Accuracy != 1 {
			t.Errorf("%s: series of one sample that tells the class: %+v, want all right", protocol, cells[0])
		}
	}
}
