package paper

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkWork compares the counted work of a job with its time, one thread, on two of
// the paper's data sets: with perfect counts, all lines would have the same ns per
// gigaflop. The error of an ETA is the difference between the lines of its models.
func BenchmarkWork(b *testing.B) {
	for _, name := range []string{"ECG5000", "Blink"} {
		d, err := imports.Import(context.Background(), imports.Options{Dir: shared(b, "datasets", name), Name: name}, nil)
		if err != nil {
			b.Fatal(err)
		}
		p, err := newProblem(d, true)
		if err != nil {
			b.Fatal(err)
		}
		s := NewSettings(PaperExact, 1)
		for _, model := range reservoirs {
			list := Configurations(model, MaxConfigurations)
			for _, units := range []int{20, 70, 130, 200} {
				b.Run(fmt.Sprintf("%s/%s/units=%d", name, model, units), func(b *testing.B) {
					done := 0.0
					for b.Loop() {
						for i, c := range list {
							if c.Units != units {
								continue
							}
							c.Seed = s.trialSeed(i)
							if _, err := p.assess(b.Context(), specs(model, p.channels, c), openAuto, s.search(p)); err != nil {
								b.Fatal(err)
							}
							done += s.work(model, p.channels, c, p.samples(p.train), len(p.fit))
						}
					}
					b.ReportMetric(b.Elapsed().Seconds()*1e3/done, "ms/gigaflop")
				})
			}
		}
	}
}

// The work expected by Run equals the sum of the reported work, to the last flop, and
// approximates it at the start: the work of draws and trainings is not known then.
func TestExpectedWorkIsDone(t *testing.T) {
	for _, protocol := range append(slices.Clone(Protocols), Compare) {
		d, models := tones(30, 9), slices.Concat(reservoirs, TrainedModels)
		budgets := []time.Duration{0, 20 * time.Millisecond}
		switch protocol {
		case Bank:
			models, budgets = []string{BankModel}, budgets[:1]
		case Compare:
			models, budgets = []string{"euler", "tiny"}, budgets[:1]
		}
		for _, budget := range budgets {
			st, err := Create(filepath.Join(t.TempDir(), "r.jsonl"), NewSettings(protocol, 1))
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			plan := Plan{Models: models, Configurations: 4, Draws: 2, Epochs: 2, Budget: budget}
			if protocol.isFixed() {
				plan.Configurations = 0
			}
			r := newRunner(Options{Plan: plan, EngineOptions: offline.EngineOptions{Threads: 2}}, st)
			var first float64
			r.Progress = func(int64, int64, string) {
				if first == 0 {
					first = r.total
				}
			}
			if _, err = r.runSets(t.Context(), []*archive.Dataset{d}); err != nil {
				t.Fatal(err)
			}
			if math.Abs(r.done-r.total) > 1e-9*r.total || r.done == 0 {
				t.Errorf("%s, budget %v: %g gigaflops told of, %g expected", protocol, budget, r.done, r.total)
			}
			// Draws have any number of units; the end of a search by budget is not known.
			if ratio := first / r.total; budget == 0 && (ratio < 0.4 || ratio > 2.5) {
				t.Errorf("%s: %g gigaflops expected at first, there were %g", protocol, first, r.total)
			}
		}
	}
}

// A job's work is reported while it runs, never more than its total.
func TestPiece(t *testing.T) {
	r := newRunner(Options{}, newStore("", NewSettings(PaperExact, 1)))
	var told []int64
	r.Progress, r.total = func(done, total int64, _ string) { told = append(told, done, total) }, 10
	p := &piece{r: r, remaining: 10, sample: 0.1}
	net, err := reservoir.Draw(specs("esn", 1, deepScales)[0])
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.open(net, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, runs := range [][]reservoir.Run{{{To: 6}}, {{To: 6}, {Slot: 1, From: 2, To: 8}}, {{Slot: 5}}, {{To: 40}, {Slot: 1, To: 40}}} {
		if err := e.Advance(make([]float32, 40), runs, nil); (err != nil) != (runs[0].Slot == 5) {
			t.Fatal(err)
		}
	}
	p.reportRest()
	// .6 is too little for a report; then 1.8; a refused call is no work; 10, and not
	// 9.8.
	if want := []int64{1, 10, 9, 10, 10, 10}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
