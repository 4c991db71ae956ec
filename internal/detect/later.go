package detect

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Span is the place of a sequence in time: its samples [From, To) of a run. A run is a
// continuous recording of one machine.
type Span struct {
	Run      int
	From, To int64
}

// early is the share of each run that the detector of measureLater learns from.
const earlyNumerator, earlyDenominator = 2, 3

// splitRuns returns the sequences of the first two thirds of each run, and the sequences that
// begin after these. Runs with fewer than three sequences are early.
func splitRuns(spans []Span) (early, later []int) {
	runs := map[int][]int{}
	var order []int
	for i, s := range spans {
		if runs[s.Run] == nil {
			order = append(order, s.Run)
		}
		runs[s.Run] = append(runs[s.Run], i)
	}
	for _, run := range order {
		of := runs[run]
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(spans[a].To, spans[b].To) })
		cut := len(of)
		if cut >= earlyDenominator {
			cut = (len(of)*earlyNumerator + earlyDenominator - 1) / earlyDenominator
		}
		early = append(early, of[:cut]...)
		for _, i := range of[cut:] {
			if spans[i].From >= spans[of[cut-1]].To {
				later = append(later, i)
			}
		}
	}
	slices.Sort(early)
	return early, later
}

// countSeparate returns how many of the sequences, in the order of splitRuns, have no common
// samples.
func countSeparate(spans []Span, of []int) (n int) {
	last := Span{Run: -1}
	for _, i := range of {
		if s := spans[i]; s.Run != last.Run || s.From >= last.To {
			n, last = n+1, s
		}
	}
	return n
}

// divideAside divides the sequences of a single run into Folds parts in order of time. Parts of
// the first half are left out together with all earlier sequences, parts of the second half with
// all later sequences: inside has the sequences of the other side without samples of the part.
// nil: not requested, several runs, or too short a run.
func divideAside(o Options) (of []int, inside [][]int) {
	n := len(o.Spans)
	if !o.Aside || n < 2*Folds || slices.ContainsFunc(o.Spans, func(s Span) bool { return s.Run != o.Spans[0].Run }) {
		return nil, nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.Spans[a].To, o.Spans[b].To) })
	of, inside = make([]int, n), make([][]int, Folds)
	for fold := range Folds {
		from, to := fold*n/Folds, (fold+1)*n/Folds
		first, last := o.Spans[order[from]], o.Spans[order[to-1]]
		for k, i := range order {
			switch s := o.Spans[i]; {
			case k >= from && k < to:
				of[i] = fold
			case fold < Folds/2 && k >= to && s.From >= last.To, fold >= Folds/2 && k < from && s.To <= first.From:
				inside[fold] = append(inside[fold], i)
			}
		}
		if len(inside[fold]) < Fewest {
			return nil, nil
		}
	}
	return of, inside
}

// measureLater counts the false alarms of a detector of the first two thirds of each run on the
// last third, of Learned sequences at most. nil: the runs are too short.
func (l *learner) measureLater(ctx context.Context, opt Options) (*novelty.Later, error) {
	if opt.part {
		return nil, nil
	}
	early, later := splitRuns(opt.Spans)
	separate := countSeparate(opt.Spans, later)
	later = thinned(later)
	if len(later) == 0 || len(early) < Fewest {
		return nil, nil
	}
	o := opt
	o.Spans, o.Inputs, o.Groups, o.Statistics, o.part = nil, nil, nil, nil, true
	width := len(opt.Statistics) / len(opt.Spans)
	for _, i := range early {
		o.Statistics = append(o.Statistics, opt.Statistics[i*width:(i+1)*width]...)
		o.Spans = append(o.Spans, opt.Spans[i])
		if opt.Groups != nil {
			o.Groups = append(o.Groups, opt.Groups[i])
		}
	}
	part := l.gather(early)
	d, r, err := Fit(ctx, part.X, len(early), o)
	switch {
	case errors.Is(err, errOneGroup) || errors.Is(err, ErrConstant):
		return nil, nil
	case err != nil:
		return nil, err
	}
	m := &novelty.Later{Level: max(r.Level, r.Least), Sequences: len(later), Separate: min(separate, len(later))}
	novel := make([]bool, len(later))
	dense.Parallel(len(later), 8, func(lo, hi int) {
		row := make([]float32, l.f)
		for i := lo; i < hi; i++ {
			copy(row, l.x[later[i]*l.f:])
			novel[i] = d.P(d.AddMeans(d.Score(row), opt.Statistics[later[i]*width:][:width])) <= float32(m.Level)
		}
	})
	for _, n := range novel {
		if n {
			m.Novel++
		}
	}
	return m, nil
}
