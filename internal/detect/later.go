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

// measureLater counts the false alarms of a detector of the first two thirds of each run on the
// last third, of Learned sequences at most. nil: the runs are too short.
func (l *learner) measureLater(ctx context.Context, opt Options) (*novelty.Later, error) {
	early, later := splitRuns(opt.Spans)
	separate := countSeparate(opt.Spans, later)
	later = thinned(later)
	if len(later) == 0 || len(early) < Fewest {
		return nil, nil
	}
	o := opt
	o.Spans, o.Inputs, o.Groups = nil, nil, nil
	for _, i := range early {
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
			novel[i] = d.P(d.Score(row)) <= float32(m.Level)
		}
	})
	for _, n := range novel {
		if n {
			m.Novel++
		}
	}
	return m, nil
}
