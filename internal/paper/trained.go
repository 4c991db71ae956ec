package paper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/offline/baseline"
)

// patience is the number of epochs without a smaller validation loss that end a training.
const patience = 50

// trainables returns the configurations of the plan.
func (r *runner) trainables(model string) []trainable {
	list := r.settings.trainables(model)[:r.Configurations]
	for i := range list {
		list[i].training.Epochs, list[i].training.Arithmetic = r.Epochs, baseline.Arithmetic
		list[i].scales.Seed = r.settings.trialSeed(i)
	}
	return list
}

// isTried reports whether a configuration has a result.
func (r *runner) isTried(dataset, model string, i int, c trainable) bool {
	t, ok := r.trials[key{dataset, model, i}]
	return ok && !t.Cut && t.Training == c.training
}

// countFinished returns the number of configurations with results before the first gap:
// the length of a search ended by its budget. Later configurations, started on other
// threads, do not count, so that the same search can be requested by this number.
func (r *runner) countFinished(dataset, model string) int {
	list := r.trainables(model)
	for i, c := range list {
		if !r.isTried(dataset, model, i, c) {
			return i
		}
	}
	return len(list)
}

// errBudget is the cause of an interrupted trial.
var errBudget = errors.New("bench: the search's budget is used up")

// train searches within the budget, then draws.
func (r *runner) train(ctx context.Context, p *problem, model string) error {
	if err := r.inOrder(ctx, r.trainingTrials(p, model)); err != nil {
		return err
	}
	n := r.countFinished(p.name, model)
	if n == 0 {
		r.setPlan(phase{p.name, model, true}, 0)
		return nil // the cell has the reason; other models and data sets continue
	}
	chosen, err := r.choose(p.name, model, n)
	if err != nil {
		return err
	}
	return r.inOrder(ctx, r.trainingDraws(p, model, chosen))
}

// tooLittle returns the reason why a model has no result.
func (r *runner) tooLittle() string {
	return fmt.Sprintf("no configuration was trained within the budget of %v: increase the budget, or use fewer epochs than %d", r.Budget, r.Epochs)
}

// trainingTrials are the untried configurations. Each may use the remaining budget of the
// trials that ended before it.
func (r *runner) trainingTrials(p *problem, model string) []job {
	var jobs []job
	s := &searchForecast{r: r}
	for i, c := range r.trainables(model) {
		if r.isTried(p.name, model, i, c) {
			continue
		}
		guess := float64(r.usualEpochs()) * p.epochWork(model, c)
		s.remaining += guess
		jobs = append(jobs, job{do: func(ctx context.Context, _ openEngine) error {
			left := r.timeLeft(p.name, model)
			if left <= 0 {
				s.endTrial(0, 0, 0)
				return nil
			}
			s.startTrial(guess)
			t := Trial{Dataset: p.name, Model: model, Index: i, Config: c.scales, Training: c.training}
			o, took, err := measure(ctx, r, func() (fitted, error) {
				ctx, cancel := context.WithTimeoutCause(ctx, left, errBudget)
				defer cancel()
				return r.fit(ctx, p, model, c, p.validation)
			})
			switch {
			case errors.Is(err, errBudget):
				t.Cut = true
			case err != nil:
				return fmt.Errorf("data set %q, %s, configuration %d: %w", p.name, model, i, err)
			default:
				t.Validation, t.Epochs = Share{o.correct, len(p.validation)}, o.epochs
			}
			t.Seconds, t.Energy = took.seconds, took.energy
			err = r.writeRecord(record{Trial: &t})
			s.endTrial(float64(o.epochs)*p.epochWork(model, c), took.seconds, r.timeLeft(p.name, model).Seconds())
			return err
		}})
	}
	r.setPlan(phase{p.name, model, false}, s.remaining)
	delete(r.searches, phase{p.name, model, false})
	s.endTrial(0, 0, r.timeLeft(p.name, model).Seconds())
	return jobs
}

// timeLeft returns the remaining time of a search's budget; without a budget, more than
// any search takes.
func (r *runner) timeLeft(dataset, model string) time.Duration {
	if r.Budget == 0 {
		return math.MaxInt64
	}
	return r.Budget - time.Duration(r.spent(dataset, model).seconds*float64(time.Second))
}

// trainingDraws are the missing trainings of the chosen configuration.
func (r *runner) trainingDraws(p *problem, model string, chosen Trial) []job {
	var jobs []job
	for i := range r.Draws {
		c := trainable{chosen.Config, chosen.Training}
		c.scales.Seed = r.settings.drawSeed(i)
		if d := r.draws[key{p.name, model, i}]; d.Config == c.scales && d.Training == c.training {
			continue
		}
		jobs = append(jobs, job{do: func(ctx context.Context, _ openEngine) error {
			o, took, err := measure(ctx, r, func() (fitted, error) { return r.fit(ctx, p, model, c, p.test) })
			if err != nil {
				return fmt.Errorf("data set %q, %s, draw %d: %w", p.name, model, i, err)
			}
			return r.writeRecord(record{Draw: &Draw{
				Dataset: p.name, Model: model, Index: i, Config: c.scales, Parameters: o.parameters,
				Learned: len(p.fit), Test: Share{o.correct, len(p.test)}, Seconds: took.seconds, Energy: took.energy,
				Training: c.training, Epochs: o.epochs, Predicted: storable(o.predicted),
			}})
		}})
	}
	r.setPlan(phase{p.name, model, true}, float64(len(jobs)*r.usualEpochs())*p.epochWork(model, trainable{chosen.Config, chosen.Training}))
	return jobs
}

// fitted is the result of a training.
type fitted struct {
	predicted  []int // class of each queried series
	correct    int   // correct predictions
	parameters int   // total number of parameters
	epochs     int
}

// fit trains on the 67 %, stops by the validation part and predicts.
func (r *runner) fit(ctx context.Context, p *problem, model string, c trainable, ask []int) (f fitted, err error) {
	s := p.spec(model, c)
	net, err := baseline.New(s)
	if err != nil {
		return f, err
	}
	one := r.training(p.epochWork(model, c))
	report, err := net.Train(ctx, p.series(p.fit), p.series(p.validation), baseline.Options{
		Rate: c.training.Rate, Batch: c.training.Batch, Epochs: c.training.Epochs, Patience: patience,
		Restore: r.settings.Protocol != PaperExact,
		Epoch:   one.reportEpoch,
	})
	one.removeRest(report.Epochs)
	f.epochs, f.parameters = report.Epochs, s.Parameters()
	if err != nil {
		return f, err
	}
	f.predicted, err = net.Predict(ctx, p.series(ask))
	if err != nil {
		return f, err
	}
	f.correct = p.countCorrect(ask, f.predicted)
	return f, nil
}

// spec returns a configuration as a network for the problem.
func (p *problem) spec(model string, c trainable) baseline.Spec {
	return baseline.Spec{
		Kind: baseline.Kind(model), Units: c.scales.Units, Channels: p.channels, Classes: len(p.classes),
		Eps: c.scales.Eps, Gamma: c.scales.Gamma, Seed: c.scales.Seed,
	}
}

// series returns the listed series in the form of a trained network.
func (p *problem) series(indices []int) []baseline.Series {
	list := make([]baseline.Series, len(indices))
	for k, i := range indices {
		list[k] = baseline.Series{Values: p.inputs[p.from[i]*p.channels : p.to[i]*p.channels], Class: p.label[i]}
	}
	return list
}

// rows counts the samples of the listed series, including shared prefixes; see samples.
func (p *problem) rows(series []int) (n int) {
	for _, i := range series {
		n += p.to[i] - p.from[i]
	}
	return n
}
