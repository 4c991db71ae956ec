package paper

import (
	"math"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/offline/baseline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// epochWork is trainingWork of a configuration.
func (p *problem) epochWork(model string, c trainable) float64 {
	return trainingWork(p.spec(model, c), p.rows(p.fit), p.rows(p.validation))
}

// trainingWork is that of an epoch of a trained model: its samples run forward,
// and those to learn from as much twice again.
func trainingWork(s baseline.Spec, learn, validation int) float64 {
	units := float64(s.Units)
	if s.Kind == baseline.GRU {
		units *= 3
	}
	return gigaflops(float64(3*learn+validation) * (3.5*float64(s.Parameters()) + 700*units))
}

// usualEpochs is how many a training takes, before it is known.
func (r *runner) usualEpochs() int { return min(r.Epochs, 2*patience) }

// training tells of one training's epochs, of which usualEpochs are expected.
type training struct {
	r    *runner
	work float64 // of an epoch
}

func (r *runner) training(epoch float64) training { return training{r, epoch} }

// epoch is told after each. Those beyond usualEpochs are expected as they come.
func (t training) epoch(n int, _ float64) {
	if n > t.r.usualEpochs() {
		t.r.expect(t.work)
	}
	t.r.advance(t.work)
}

// end takes off the epochs that did not come.
func (t training) end(epochs int) { t.r.expect(float64(min(0, epochs-t.r.usualEpochs())) * t.work) }

// searchForecast is the expected work of the trials of a trained model that have not
// begun. It is no more than the budget leaves time for, once there is a trial to
// take the rate from.
type searchForecast struct {
	r    *runner
	mu   sync.Mutex
	rest float64
}

// pace is that of the trials of a run that have ended, whatever the model.
type pace struct{ done, seconds float64 }

// begin takes a trial off the rest.
func (s *searchForecast) begin(guess float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := min(s.rest, guess)
	s.rest -= taken
	s.r.expect(guess - taken)
}

// end takes a trial's rate, its work in gigaflops over its seconds, and cuts the
// rest to what the seconds left give time for; and so the searches that have not
// begun.
func (s *searchForecast) end(work, seconds, left float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.r.pace
	p.done, p.seconds = p.done+work, p.seconds+seconds
	rate := math.Inf(1) // not known: it bounds nothing
	if p.seconds > 0 {
		rate = p.done / p.seconds
	}
	most := func(left float64) float64 {
		if left <= 0 {
			return 0
		}
		return rate * left
	}
	if m := most(left); m < s.rest {
		s.r.expect(m - s.rest)
		s.rest = m
	}
	for next := range s.r.searches {
		if m := most(s.r.left(next.dataset, next.model).Seconds()); m < s.r.planned[next] {
			s.r.plan(next, m)
		}
	}
}

// expectedTraining plans the work that a trained model on a data set still takes,
// about.
func (r *runner) expectedTraining(d *archive.Dataset, model string) {
	train, longest, series := 0, 0, labelled(d, archive.Train)
	for _, i := range series {
		train += d.Len(i)
	}
	if r.settings.Protocol == PaperExact { // padded
		for _, i := range slices.Concat(series, labelled(d, archive.Test)) {
			longest = max(longest, d.Len(i))
		}
		train = longest * len(series)
	}
	one := func(c trainable) float64 {
		s := baseline.Spec{Kind: baseline.Kind(model), Units: c.scales.Units, Channels: len(d.Channels), Classes: len(d.Classes)}
		return float64(r.usualEpochs()) * trainingWork(s, train*2/3, train/3)
	}
	trials, draws := 0.0, 0.0
	for i, c := range r.trainables(model) {
		if !r.tried(d.Name, model, i, c) {
			trials += one(c)
		}
	}
	for i := range r.Draws {
		if _, ok := r.draws[key{d.Name, model, i}]; !ok {
			draws += one(trainable{scales: Scales{Units: 100}})
		}
	}
	r.plan(phase{d.Name, model, false}, trials)
	r.plan(phase{d.Name, model, true}, draws)
	r.searches[phase{d.Name, model, false}] = true
}
