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

// trainingWork returns the work of an epoch of a trained model: its samples run forward,
// and the training samples twice as much in addition.
func trainingWork(s baseline.Spec, learn, validation int) float64 {
	units := float64(s.Units)
	if s.Kind == baseline.GRU {
		units *= 3
	}
	return gigaflops(float64(3*learn+validation) * (3.5*float64(s.Parameters()) + 700*units))
}

// usualEpochs is the expected number of epochs of a training.
func (r *runner) usualEpochs() int { return min(r.Epochs, 2*patience) }

// training reports the epochs of a training, of which usualEpochs are expected.
type training struct {
	r    *runner
	work float64 // of an epoch
}

func (r *runner) training(epoch float64) training { return training{r, epoch} }

// reportEpoch is called after each epoch. Epochs beyond usualEpochs are added to the
// expectation.
func (t training) reportEpoch(n int, _ float64) {
	if n > t.r.usualEpochs() {
		t.r.addExpected(t.work)
	}
	t.r.advance(t.work)
}

// removeRest removes the missing epochs from the expectation.
func (t training) removeRest(epochs int) {
	t.r.addExpected(float64(min(0, epochs-t.r.usualEpochs())) * t.work)
}

// searchForecast is the expected work of the trials of a trained model that have not
// started. It is limited by the remaining time of the budget, once a trial gives the
// rate.
type searchForecast struct {
	r         *runner
	mu        sync.Mutex
	remaining float64
}

// pace is the rate of the finished trials of a run, of all models.
type pace struct{ done, seconds float64 }

// startTrial subtracts a trial from the rest.
func (s *searchForecast) startTrial(guess float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := min(s.remaining, guess)
	s.remaining -= taken
	s.r.addExpected(guess - taken)
}

// endTrial adds a trial's rate, its work in gigaflops per second, and limits the rest to
// the remaining time; also for searches that have not started.
func (s *searchForecast) endTrial(work, seconds, left float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.r.pace
	p.done, p.seconds = p.done+work, p.seconds+seconds
	rate := math.Inf(1) // unknown: no limit
	if p.seconds > 0 {
		rate = p.done / p.seconds
	}
	most := func(left float64) float64 {
		if left <= 0 {
			return 0
		}
		return rate * left
	}
	if m := most(left); m < s.remaining {
		s.r.addExpected(m - s.remaining)
		s.remaining = m
	}
	for next := range s.r.searches {
		if m := most(s.r.timeLeft(next.dataset, next.model).Seconds()); m < s.r.planned[next] {
			s.r.setPlan(next, m)
		}
	}
}

// planTraining plans the approximate remaining work of a trained model on a data set.
func (r *runner) planTraining(d *archive.Dataset, model string) {
	train, longest, series := 0, 0, labeled(d, archive.Train)
	for _, i := range series {
		train += d.Len(i)
	}
	if r.settings.Protocol == PaperExact { // padded
		for _, i := range slices.Concat(series, labeled(d, archive.Test)) {
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
		if !r.isTried(d.Name, model, i, c) {
			trials += one(c)
		}
	}
	for i := range r.Draws {
		if _, ok := r.draws[key{d.Name, model, i}]; !ok {
			draws += one(trainable{scales: Scales{Units: 100}})
		}
	}
	r.setPlan(phase{d.Name, model, false}, trials)
	r.setPlan(phase{d.Name, model, true}, draws)
	r.searches[phase{d.Name, model, false}] = true
}
