package choose

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Outcome is the result of a trial.
type Outcome struct {
	Error     float64 // 1 less the mean AUROC of the classes, or the root mean squared error of numbers, of left-out sequences
	Deviation float64 // standard error of Error
	Sequences int     // learned from and left out
	Divided   bool    // a class comes from one continuous interval: overlapping sequences would be on both sides
}

// Try trains with a setting on at most most sequences.
type Try func(ctx context.Context, s Setting, most int) (Outcome, error)

// Result is a tried setting.
type Result struct {
	Setting
	Outcome
	Round  int    // last round, from 1
	Failed string // why there is no outcome; empty: there is one
	Chosen bool
}

// Work of a second of a budget, in multiply-adds: of one slow core.
const workOfSecond = 1e10

// Budget is the work that a search may do, in multiply-adds.
type Budget float64

// BudgetOf returns the budget of nominal seconds.
func BudgetOf(seconds float64) Budget { return Budget(seconds * workOfSecond) }

const (
	rounds         = 2
	firstSequences = 500 // of the first round
	fewSequences   = 100
	readWork       = 100  // of reading a value in a trial
	keptShare      = 3    // one of so many candidates reaches the next round
	enough         = 2000 // sequences: a shorter hop adds no more
)

// Search compares settings, the default first, and returns the tried settings with the chosen setting. Without a budget for two
// candidates the default is chosen, without a trial.
func Search(ctx context.Context, settings []Setting, b Budget, signal Signal, spec reservoir.Spec, open Open, try Try, progress archive.Progress) ([]Result, error) {
	first := firstSequences
	for first > fewSequences && workOf(settings, first, signal, spec) > float64(b) {
		first = max(fewSequences, first/2)
	}
	for len(settings) > 1 && workOf(settings, first, signal, spec) > float64(b) {
		settings = settings[:len(settings)-1]
	}
	all := make([]Result, len(settings))
	for i, s := range settings {
		all[i] = Result{Setting: s}
	}
	if len(all) < 2 {
		all[0].Chosen = true
		return all, nil
	}
	alive := make([]*Result, len(all))
	for i := range all {
		alive[i] = &all[i]
	}
	s := &search{try: try, progress: progress, trials: int64(len(all) + finalists(len(all)) + 2)}
	for round, most := 1, first; round <= rounds; round, most = round+1, 2*most {
		for _, r := range alive {
			if err := s.trySetting(ctx, r, round, most); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(alive[1:], compareResults)
		alive = alive[:min(len(alive), finalists(len(all)))]
	}
	best := better(alive)
	if best.Chosen = true; open.Policy {
		return s.shortenHop(ctx, all, best, rounds*first, signal)
	}
	return all, nil
}

// finalists is the number of candidates of the second round: the default and a third of the others.
func finalists(n int) int { return 1 + max(1, (n-1)/keptShare) }

// better returns the best candidate if its error is smaller than the default's by more than a standard error; otherwise the
// cheapest front end that is not worse at half the cost or less, for the default's policy; otherwise the default.
func better(finalists []*Result) *Result {
	standard, best := finalists[0], finalists[1]
	if best.Failed == "" && (standard.Failed != "" || best.Error < standard.Error-standard.Deviation) {
		return best
	}
	chosen := standard
	for _, r := range finalists[1:] {
		if r.Failed == "" && r.Policy == standard.Policy && r.Error <= standard.Error && 2*r.Cost() <= standard.Cost() && r.Cost() < chosen.Cost() {
			chosen = r
		}
	}
	return chosen
}

// compareResults puts failed candidates last, and among equal errors the cheaper first.
func compareResults(a, b *Result) int {
	if (a.Failed == "") != (b.Failed == "") {
		return cmp.Compare(len(a.Failed), len(b.Failed))
	}
	return cmp.Or(cmp.Compare(a.Error, b.Error), cmp.Compare(a.Cost(), b.Cost()))
}

// search counts trials.
type search struct {
	try          Try
	progress     archive.Progress
	done, trials int64
}

func (s *search) trySetting(ctx context.Context, r *Result, round, most int) error {
	out, err := s.try(ctx, r.Setting, most)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.Round, r.Outcome = round, out
	if err != nil {
		r.Failed = err.Error()
	}
	s.done = min(s.done+1, s.trials)
	s.progress.Report(s.done, s.trials, "settings tried")
	return nil
}

// shortenHop tries the best setting with a shorter hop, and so with more sequences, if there are few.
func (s *search) shortenHop(ctx context.Context, all []Result, best *Result, most int, signal Signal) ([]Result, error) {
	hops := best.hops()
	if len(hops) == 0 || best.Failed != "" || best.Divided || signal.Samples/int64(best.Policy.Hop) > enough {
		return all, nil
	}
	if err := s.trySetting(ctx, best, best.Round+1, most); err != nil {
		return nil, err
	}
	standard := *best
	for _, h := range hops {
		next := Result{Setting: h}
		if err := s.trySetting(ctx, &next, best.Round, most*best.Policy.Hop/h.Policy.Hop); err != nil {
			return nil, err
		}
		if next.Failed == "" && next.Error < standard.Error-standard.Deviation {
			best.Chosen, next.Chosen = false, true
		}
		all = append(all, next)
	}
	return all, nil
}

// workOf estimates a search: reading, states and readouts.
func workOf(settings []Setting, first int, signal Signal, spec reservoir.Spec) float64 {
	f, n := float64(spec.FeatureCount()), float64(first)
	step := float64(spec.Members) * float64(spec.Units) * float64(spec.Units+min(spec.Channels, 9)+1)
	work, most := 0., 0.
	for _, s := range settings {
		one := readWork*float64(signal.Samples)*float64(len(signal.Channels)) + 2*n*s.rows(signal)*step + n*min(n, f)*f
		work, most = work+one, max(most, one)
	}
	return work + float64(finalists(len(settings)))*3*most // twice the sequences
}

// NewTry returns trials with the options of a training, by a network spec. grouped reports that the user specified groups.
func NewTry(data *bridge.Trials, signal Signal, grouped bool, o offline.RetrainOptions, spec reservoir.Spec) Try {
	o.Spec, o.Coverage, o.MaxError, o.Confidence, o.CoverageByClass, o.Novelty, o.Early, o.Planned = spec, 0, 0, 0, false, nil, nil, nil
	return func(ctx context.Context, s Setting, most int) (Outcome, error) {
		o := o
		if o.Policy, o.Front = s.Policy, s.Front; s.Policy.Kind == reservoir.Window && signal.Single && !grouped {
			o.TrainHop = s.Policy.Length // windows on both sides of a cut have no common samples
		}
		result, err := data.Try(ctx, o, most)
		if err != nil {
			return Outcome{}, err
		}
		report := result.(offline.RetrainReport)
		out := Outcome{Sequences: report.Sequences, Divided: len(report.Divided) > 0}
		n := math.Max(1, math.Min(float64(report.Sequences), float64(report.Samples)/float64(max(1, report.MaxLength))))
		switch q := report.Readout.Quality; {
		case report.Readout.Numbers != nil:
			out.Error = report.Readout.Numbers.RMSE
			out.Deviation = out.Error / math.Sqrt(2*n)
		case q == nil || q.AUROC == nil:
			return out, errors.New("choose: no sequence of two classes was left out")
		default:
			out.Error = 1 - *q.AUROC
			out.Deviation = math.Sqrt(out.Error * (1 - out.Error) / n)
		}
		return out, nil
	}
}
