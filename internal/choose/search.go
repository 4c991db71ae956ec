package choose

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Outcome is the result of a trial.
type Outcome struct {
	Error     float64            // 1 less the mean AUROC of the classes, or the root mean squared error of numbers, of left-out sequences
	Deviation float64            // standard error of Error
	Sequences int                // learned from and left out
	Guesses   bool               // the left-out sequences are predicted no better than by guesses
	Groups    map[string]float64 // accuracy of each group; nil: no groups
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
	firstSequences = 750 // of the first round
	fewSequences   = 100
	readWork       = 100  // of reading a value in a trial
	keptShare      = 3    // one of so many candidates reaches the next round
	enough         = 2000 // sequences: a shorter hop adds no more
)

// Search chooses a policy, then a front end, then a hop, and returns the tried settings with the chosen setting. A budget
// too small for two candidates leaves the given setting.
func Search(ctx context.Context, given Setting, b Budget, signal Signal, spec reservoir.Spec, open Open, try Try, progress archive.Progress) ([]Result, error) {
	s := &search{try: try, progress: progress, signal: signal, spec: spec, budget: b / 2}
	policies := Policies(signal, given, open)
	s.trials = int64(2*len(policies) + 10)
	best, err := s.choose(ctx, policies)
	if err == nil && best != nil && open.Front {
		_, err = s.choose(ctx, Fronts(signal, best.Setting, open))
	}
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.all, func(r *Result) bool { return r.Chosen })
	if i < 0 {
		return []Result{{Setting: given, Chosen: true}}, nil
	}
	if open.Policy {
		err = s.shortenHop(ctx, s.all[i])
	}
	all := make([]Result, len(s.all))
	for i, r := range s.all {
		all[i] = *r
	}
	return all, err
}

// search keeps the tried settings.
type search struct {
	try          Try
	progress     archive.Progress
	done, trials int64
	signal       Signal
	spec         reservoir.Spec
	budget       Budget // of a choice
	first        int    // sequences of the last choice's first round
	all          []*Result
}

// choose compares settings in two rounds, and marks the chosen setting. nil: the budget is too small for two.
func (s *search) choose(ctx context.Context, settings []Setting) (*Result, error) {
	s.first = firstSequences
	for s.first > fewSequences && s.workOf(settings) > float64(s.budget) {
		s.first = max(fewSequences, s.first/2)
	}
	for len(settings) > 1 && s.workOf(settings) > float64(s.budget) {
		settings = settings[:len(settings)-1]
	}
	if s.workOf(settings) > float64(s.budget) {
		return nil, nil
	}
	var alive []*Result
	for _, one := range settings {
		i := slices.IndexFunc(s.all, func(r *Result) bool { return r.Setting == one }) // chosen before
		if i < 0 {
			i = len(s.all)
			s.all = append(s.all, &Result{Setting: one})
		}
		s.all[i].Chosen = false
		alive = append(alive, s.all[i])
	}
	for round, most := 1, s.first; round <= rounds && (len(alive) > 1 || round == 1); round, most = round+1, 2*most {
		for _, r := range alive {
			if err := s.trySetting(ctx, r, round, most); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(alive[1:], compareResults)
		alive = alive[:min(len(alive), finalists(len(settings)))]
	}
	best := better(alive)
	best.Chosen = true
	return best, nil
}

// finalists is the number of candidates of the second round: the base and a third of the others.
func finalists(n int) int { return 1 + max(1, (n-1)/keptShare) }

// better returns the best candidate if it is better than the base; otherwise the cheapest front end that is not worse at
// half the cost or less; otherwise the base.
func better(finalists []*Result) *Result {
	base := finalists[0]
	for _, r := range finalists[1:] {
		if r.Failed == "" && (base.Failed != "" || r.beats(base) && !r.Guesses) {
			return r // the others have a larger error
		}
	}
	chosen := base
	for _, r := range finalists[1:] {
		if r.Failed == "" && !r.Guesses && r.Policy == base.Policy && r.Error <= base.Error && 2*r.Cost() <= base.Cost() && r.Cost() < chosen.Cost() {
			chosen = r
		}
	}
	return chosen
}

// beats reports whether the error is smaller by more than a standard error, and the accuracy of groups is larger by more
// than a standard error of the differences in the same groups.
func (r *Result) beats(base *Result) bool {
	if !(r.Error < base.Error-base.Deviation) {
		return false
	}
	sum, square, n := 0., 0., 0.
	for _, name := range slices.Sorted(maps.Keys(base.Groups)) { // sorted: the bits of sums depend on the order
		if other, both := r.Groups[name]; both {
			d := other - base.Groups[name]
			sum, square, n = sum+d, square+d*d, n+1
		}
	}
	if n < fewGroups {
		return true
	}
	mean := sum / n
	return mean > math.Sqrt(max(0, square/n-mean*mean)/(n-1))
}

// fewGroups is a number of groups whose differences tell nothing.
const fewGroups = 5

// compareResults puts failed candidates last, and among equal errors the cheaper first.
func compareResults(a, b *Result) int {
	if (a.Failed == "") != (b.Failed == "") {
		return cmp.Compare(len(a.Failed), len(b.Failed))
	}
	return cmp.Or(cmp.Compare(a.Error, b.Error), cmp.Compare(a.Cost(), b.Cost()))
}

func (s *search) trySetting(ctx context.Context, r *Result, round, most int) error {
	out, err := s.try(ctx, r.Setting, most)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.Round, r.Outcome, r.Failed = round, out, ""; err != nil {
		r.Failed = err.Error()
	}
	s.done = min(s.done+1, s.trials)
	s.progress.Report(s.done, s.trials, "settings tried")
	return nil
}

// shortenHop tries the best setting with a shorter hop, and so with more sequences, if there are few.
func (s *search) shortenHop(ctx context.Context, best *Result) error {
	hops := best.hops()
	if len(hops) == 0 || best.Failed != "" || s.signal.Single || s.signal.Samples/int64(best.Policy.Hop) > enough {
		return nil
	}
	most := rounds * s.first
	if err := s.trySetting(ctx, best, best.Round+1, most); err != nil {
		return err
	}
	for _, h := range hops {
		next := &Result{Setting: h}
		if err := s.trySetting(ctx, next, best.Round, most*best.Policy.Hop/h.Policy.Hop); err != nil {
			return err
		}
		if s.all = append(s.all, next); next.Failed == "" && next.beats(best) && !next.Guesses {
			best.Chosen, next.Chosen = false, true
		}
	}
	return nil
}

// workOf estimates a choice: reading, states and readouts.
func (s *search) workOf(settings []Setting) float64 {
	f, n := float64(s.spec.FeatureCount()), float64(s.first)
	step := float64(s.spec.Members) * float64(s.spec.Units) * float64(s.spec.Units+min(s.spec.Channels, 9)+1)
	work, most := 0., 0.
	for _, one := range settings {
		w := readWork*float64(s.signal.Samples)*float64(len(s.signal.Channels)) + 2*n*one.rows(s.signal)*step + n*min(n, f)*f
		work, most = work+w, max(most, w)
	}
	return work + float64(finalists(len(settings)))*3*most // twice the sequences
}

// NewTry returns trials with the options of a training, by a network spec. grouped reports that the user specified groups.
func NewTry(data *bridge.Trials, signal Signal, grouped bool, o offline.RetrainOptions, spec reservoir.Spec) Try {
	o.Spec, o.Coverage, o.MaxError, o.Confidence, o.CoverageByClass, o.Novelty, o.Early, o.Segments, o.Planned = spec, 0, 0, 0, false, nil, nil, nil, nil
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
		out := Outcome{Sequences: report.Sequences}
		if report.ByGroup != nil {
			out.Groups = map[string]float64{}
			for _, g := range report.ByGroup.Groups {
				out.Groups[g.Group] = g.Accuracy
			}
		}
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
			out.Guesses = out.Error > 0.5-out.Deviation
		}
		return out, nil
	}
}
