package bench

import (
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
)

// Choosing, averaging and judging, on figures made up here.
func TestCellAndVerdict(t *testing.T) {
	st := newStore("", NewSettings(PaperExact, 1))
	for i, right := range []int{7, 9, 8, 9} {
		st.trials[key{"Adiac", "eusn", i}] = Trial{Index: i, Config: offline.PaperScales{Units: []int{10, 20, 200, 30}[i]}, Validation: Share{right, 10}, Seconds: 1}
	}
	for i, right := range []int{44, 48} {
		st.draws[key{"Adiac", "eusn", i}] = Draw{Test: Share{right, 100}, Seconds: float64(i)}
	}
	c, err := st.cell("Adiac", "eusn", plan(PaperExact, 4, 2))
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
	}{
		{PaperExact, "eusn", 0.46, 0, true, true},   // paper .442 +- .009: .02 is the tolerance
		{PaperExact, "eusn", 0.47, 0, false, true},  // .028 above
		{PaperExact, "eusn", 0.47, .02, true, true}, // our own deviation counts
		{PaperExact, "eusn", 0.41, 0, false, true},
		{Best, "eusn", 0.9, 0, true, true},
		{Best, "eusn", 0.41, 0, false, true},
		{Bank, BankModel, 0.7, 0, true, true},
		{PaperExact, "esn", 0.28, 0, true, true}, // .159 +- .067
	} {
		st.settings.Protocol = v.protocol
		got, ok := st.Judge(Cell{Dataset: "Adiac", Model: v.model, Accuracy: v.accuracy, Deviation: v.deviation})
		if got.Within != v.within || ok != v.ok || !got.Gated {
			t.Errorf("%+v: %+v", v, got)
		}
	}
	if _, ok := st.Judge(Cell{Dataset: "tones", Model: "eusn"}); ok {
		t.Error("a verdict on a set that the paper does not have")
	}
}
