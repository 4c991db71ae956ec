package bench

import (
	"math"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/parts"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// dataset imports a published set from beside the checkout.
func dataset(t *testing.T, name string) *offline.Dataset {
	t.Helper()
	d, err := offline.Import(t.Context(), offline.ImportOptions{Dir: shared(t, "datasets", name), Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPaperExact reruns the paper's experiment with Euler State Networks, all
// 200 configurations and 10 draws: the configuration selected and its validation
// count are exact, the accuracy is the paper's by the gate, ECG5000's apart (see
// TestECG5000IsATie). Adiac takes 6 s of one core of 2021, all sets two minutes:
// EUSN_ACCURACY=all asks for them.
func TestPaperExact(t *testing.T) {
	for _, c := range []struct {
		name       string
		selected   int
		units      int // the paper's too, SpokenArabicDigits' apart: 190 there
		validation int
		within     bool
	}{
		{"Adiac", 197, 200, 64, true},
		{"Blink", 120, 130, 164, true},
		{"CharacterTrajectories", 59, 180, 459, true},
		{"ECG5000", 71, 140, 154, false},
		{"ShapesAll", 59, 180, 135, true},
		{"SpokenArabicDigits", 171, 200, 2070, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() || c.name != "Adiac" && !parts.Accuracy(c.name) {
				t.Skip("NOT TESTED: takes minutes, EUSN_ACCURACY=all asks for it")
			}
			cells, st := benched(t, PaperExact, Options{Plan: plan(PaperExact, 200, 10, "eusn")}, dataset(t, c.name))
			cell := cells[0]
			v, ok := st.Judge(cell)
			t.Logf("accuracy %.4f +- %.4f, paper %.3f; search %.1f s", cell.Accuracy, cell.Deviation, v.Paper.Accuracy, cell.Searched)
			if cell.Selected != c.selected || cell.Config.Units != c.units || cell.Validation.Correct != c.validation {
				t.Errorf("configuration %d of %d units with %d right is selected, want %d of %d with %d", cell.Selected, cell.Config.Units, cell.Validation.Correct, c.selected, c.units, c.validation)
			}
			if !ok || v.Within != c.within {
				t.Errorf("verdict %+v, want within %v", v, c.within)
			}
		})
	}
}

// On ECG5000 eight configurations tie on the 165 validation series. The first
// of them, which wins by the rule, is a poor one for other series and other
// weights; another one has the paper's 170 units and gives the paper's accuracy.
func TestECG5000IsATie(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: short")
	}
	p, err := newProblem(dataset(t, "ECG5000"), true)
	if err != nil {
		t.Fatal(err)
	}
	paper, _ := Paper("ECG5000", "eusn")
	s, list := NewSettings(PaperExact, 1), Configurations("eusn")
	open := func(n *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(n, slots, "auto", 1)
	}
	assess := func(i int, seed uint64, a assessment) int {
		c := list[i]
		c.Seed = seed
		o, err := p.assess(t.Context(), specs("eusn", p.channels, c), open, a)
		if err != nil {
			t.Fatal(err)
		}
		return o.correct
	}
	const first, tied, draws = 71, 95, 5
	if a, b := assess(first, s.trialSeed(first), s.search(p)), assess(tied, s.trialSeed(tied), s.search(p)); a != 154 || b != 154 {
		t.Errorf("validation %d and %d, want a tie of 154", a, b)
	}
	if u := list[tied].Units; u != paper.Units {
		t.Errorf("configuration %d has %d units, want the paper's %d", tied, u, paper.Units)
	}
	for i, within := range map[int]bool{first: false, tied: true} {
		mean := 0.0
		for k := range draws {
			mean += float64(assess(i, s.drawSeed(k), s.final(p))) / float64(len(p.test)) / draws
		}
		t.Logf("configuration %d: %.4f, paper %.3f", i, mean, paper.Accuracy)
		if math.Abs(mean-paper.Accuracy) <= minTolerance != within {
			t.Errorf("configuration %d: %.4f, paper %.3f", i, mean, paper.Accuracy)
		}
	}
}
