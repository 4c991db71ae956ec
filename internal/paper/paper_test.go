package paper

import (
	"math"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// dataset imports a published set from a folder next to the checkout.
func dataset(t *testing.T, name string) *archive.Dataset {
	t.Helper()
	d, err := imports.Import(t.Context(), imports.Options{Dir: shared(t, "datasets", name), Name: name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPaperExact reruns the paper's experiment with Euler State Networks, all 200
// configurations and 10 draws: the selected configuration and its validation count are
// exact, the accuracy is the paper's within the gate, except for ECG5000 (see
// TestECG5000IsATie). Adiac takes 6 s of one core of 2021, all sets two minutes:
// EUSN_ACCURACY=all selects all sets.
func TestPaperExact(t *testing.T) {
	for _, c := range []struct {
		name       string
		selected   int
		units      int // the paper's as well, except for SpokenArabicDigits: 190 there
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
				t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
			}
			cells, st := runBench(t, PaperExact, Options{Plan: smallPlan(PaperExact, 200, 10, "eusn")}, dataset(t, c.name))
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

// redrawn is a data set's configurations with redrawn weights.
type redrawn struct {
	*testing.T
	*problem
	Settings
	model string
	list  []Scales
}

func redraw(t *testing.T, d *archive.Dataset, model string) redrawn {
	p, err := newProblem(d, true)
	if err != nil {
		t.Fatal(err)
	}
	return redrawn{t, p, NewSettings(PaperExact, 1), model, Configurations(model, MaxConfigurations)}
}

// predict returns the classes that configuration i predicts for the queried series of an
// assessment, with the weights of a seed.
func (r redrawn) predict(i int, seed uint64, a assessment) []int {
	open := func(n *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(n, slots, cpu.Options{Threads: 1})
	}
	c := r.list[i]
	c.Seed = seed
	o, err := r.assess(r.Context(), specs(r.model, r.channels, c), open, a)
	if err != nil {
		r.Fatal(err)
	}
	return o.predicted
}

// share returns the share of correct predictions of configuration i.
func (r redrawn) share(i int, seed uint64, a assessment) float64 {
	right := 0
	for j, class := range r.predict(i, seed, a) {
		if class == r.label[a.ask[j]] {
			right++
		}
	}
	return float64(right) / float64(len(a.ask))
}

// On ECG5000 eight configurations tie on the 165 validation series. The first one, which
// wins by the rule, is poor for other series and other weights; another one has the
// paper's 170 units and gives the paper's accuracy.
func TestECG5000IsATie(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: short")
	}
	r := redraw(t, dataset(t, "ECG5000"), "eusn")
	paper, _ := Paper("ECG5000", "eusn")
	const first, tied = 71, 95
	search := r.search(r.problem)
	if a, b := r.share(first, r.trialSeed(first), search), r.share(tied, r.trialSeed(tied), search); a != 154./165 || b != a {
		t.Errorf("validation %v and %v, want a tie of 154 of 165", a, b)
	}
	if u := r.list[tied].Units; u != paper.Units {
		t.Errorf("configuration %d has %d units, want the paper's %d", tied, u, paper.Units)
	}
	r.checkAccuracies(first, tied, paper)
}

// If the search selects another number of units than the paper, its choice depends on one
// draw of the weights and one validation part. With other draws and other series the
// search could have selected the best configuration with the paper's units: the lead over
// this configuration, over ten draws, is less than two standard deviations of the lead
// that one search sees. The variances are those of the two counts over draws, and the
// mean number of series that only one of the two configurations predicts correctly
// (McNemar's). If the accuracy of the selected configuration is not the paper's, the
// accuracy of the configuration with the paper's units is.
func TestUnitsAreATie(t *testing.T) {
	for _, c := range []struct {
		name, model     string
		selected, paper int // configurations
	}{
		{"SpokenArabicDigits", "eusn", 171, 49},
		{"MNIST", "eusn", 81, 132},
		{"Reuters", "eusn", 132, 109},
		{"IMDB", "eusn", 59, 101},
		{"Blink", "esn", 114, 78},
		{"Blink", "resn", 11, 21},
		{"CharacterTrajectories", "esn", 136, 167},
	} {
		t.Run(c.name+"/"+c.model, func(t *testing.T) {
			if testing.Short() || !parts.Accuracy(c.name) {
				t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
			}
			d := dataset(t, c.name)
			if len(d.Series[0].Tokens) > 0 {
				d = embed(t, d)
			}
			r := redraw(t, d, c.model)
			paper, _ := Paper(c.name, c.model)
			if u := r.list[c.paper].Units; u != paper.Units {
				t.Errorf("configuration %d has %d units, want the paper's %d", c.paper, u, paper.Units)
			}
			r.checkLead(c.selected, c.paper)
			if c.model != "eusn" {
				r.checkAccuracies(c.selected, c.paper, paper)
			}
		})
	}
}

// draws is the number of draws of the weights for a mean, as in the paper.
const draws = 10

// checkLead counts the correct validation series of two configurations, and fails if the
// first configuration is better by more than chance.
func (r redrawn) checkLead(first, second int) {
	search := r.search(r.problem)
	var one, two, apart [draws]float64
	for k := range draws {
		a := r.predict(first, r.drawSeed(k), search)
		b := r.predict(second, r.drawSeed(k), search)
		for j, i := range search.ask {
			x, y := a[j] == r.label[i], b[j] == r.label[i]
			if x {
				one[k]++
			}
			if y {
				two[k]++
			}
			if x != y {
				apart[k]++
			}
		}
	}
	a, va := stat.MeanVariance(one[:], nil)
	b, vb := stat.MeanVariance(two[:], nil)
	deviation := math.Sqrt(va + vb + stat.Mean(apart[:], nil))
	r.Logf("%d units %.1f +- %.1f, the paper's %d units %.1f +- %.1f of %d: a lead of %.1f, deviation %.1f",
		r.list[first].Units, a, math.Sqrt(va), r.list[second].Units, b, math.Sqrt(vb), len(search.ask), a-b, deviation)
	if a-b > 2*deviation {
		r.Error("the selected configuration is better by more than chance")
	}
}

// checkAccuracies fails if the first configuration has the paper's accuracy on the test
// part, or the second has not.
func (r redrawn) checkAccuracies(first, second int, paper Published) {
	for _, i := range []int{first, second} {
		var test [draws]float64
		for k := range draws {
			test[k] = r.share(i, r.drawSeed(k), r.final(r.problem))
		}
		mean, deviation := stat.MeanStdDev(test[:], nil)
		r.Logf("configuration %d, %d units: %.3f +- %.3f on the test part, paper %.3f +- %.3f", i, r.list[i].Units, mean, deviation, paper.Accuracy, paper.Deviation)
		if tolerance := max(minTolerance, 2*max(deviation, paper.Deviation)); (math.Abs(mean-paper.Accuracy) <= tolerance) != (i == second) {
			r.Errorf("configuration %d: the paper's accuracy %v, want %v", i, i != second, i == second)
		}
	}
}

// embed learns a text's word vectors and reads the archive made with them.
func embed(t *testing.T, d *archive.Dataset) *archive.Dataset {
	t.Helper()
	path := filepath.Join(t.TempDir(), d.Name+".parquet")
	if _, err := imports.Embed(t.Context(), path, d, imports.EmbedOptions{Seed: reservoir.DefaultSeed}, nil); err != nil {
		t.Fatal(err)
	}
	d, err := archive.ReadDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
