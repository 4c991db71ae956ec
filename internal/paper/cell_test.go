package paper

import (
	"math"
	"slices"
	"testing"
)

// Selection, averages and verdicts, on invented figures.
func TestCellAndVerdict(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	for i, right := range []int{7, 9, 8, 9} {
		st.trials[key{"Adiac", "eusn", i}] = Trial{Index: i, Config: Scales{Units: []int{10, 20, 200, 30}[i]}, Validation: Share{right, 10}, Seconds: 1}
	}
	for i, right := range []int{44, 48} {
		st.draws[key{"Adiac", "eusn", i}] = Draw{Test: Share{right, 100}, Seconds: float64(i)}
	}
	c, err := st.cell("Adiac", "eusn", smallPlan(PaperExact, 4, 2))
	if err != nil {
		t.Fatal(err)
	}
	if c.Selected != 1 || !slices.Equal(c.Tied, []int{3}) || c.AtPaper.Correct != 8 || math.Abs(c.Accuracy-0.46) > 1e-12 || math.Abs(c.Deviation-0.02) > 1e-12 || c.Seconds != 0.5 || c.Searched != 4 {
		t.Errorf("cell %+v", c)
	}
	for _, v := range []struct {
		protocol   Protocol
		model      string
		accuracy   float64
		deviation  float64
		within, ok bool
		byOurs     bool
	}{
		{PaperExact, "eusn", 0.46, 0, true, true, false},  // paper .442 +- .009: .02 is the tolerance
		{PaperExact, "eusn", 0.47, 0, false, true, false}, // .028 above
		{PaperExact, "eusn", 0.47, .02, true, true, true}, // our own deviation counts, and is marked
		{PaperExact, "eusn", 0.41, 0, false, true, false},
		{PaperExact, "eusn", 0.41, .02, true, true, true},
		{PaperExact, "eusn", 0.45, .02, true, true, false}, // within .02 as well
		{Best, "eusn", 0.9, 0, true, true, false},
		{Best, "eusn", 0.41, 0, false, true, false},
		{Best, "eusn", 0.41, .02, true, true, true},
		{Best, "eusn", 0.9, .2, true, true, false}, // a higher accuracy is no fault here
		{Bank, BankModel, 0.7, 0, true, true, false},
		{PaperExact, "esn", 0.28, 0, true, true, false}, // .159 +- .067
	} {
		st.settings.Protocol = v.protocol
		got, ok := st.Judge(Cell{Dataset: "Adiac", Model: v.model, Accuracy: v.accuracy, Deviation: v.deviation})
		if got.Within != v.within || ok != v.ok || !got.Gated || got.ByOurs != v.byOurs || math.Abs(got.Fixed-map[string]float64{"eusn": .02, BankModel: .02, "esn": 2 * .067}[v.model]) > 1e-9 {
			t.Errorf("%+v: %+v", v, got)
		}
	}
	if _, ok := st.Judge(Cell{Dataset: "tones", Model: "eusn"}); ok {
		t.Error("a verdict on a set that the paper does not have")
	}
}

// One draw has no deviation, which 0.000 would suggest.
func TestSpread(t *testing.T) {
	for draws, want := range map[int]string{1: "0.441 (one draw)", 2: "0.441 ± 0.008", 10: "0.441 ± 0.008"} {
		if got := Spread(.441, .008, draws, 3); got != want {
			t.Errorf("%d draws: %q, want %q", draws, got, want)
		}
	}
}
