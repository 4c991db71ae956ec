// Package sequencetest says where sequences begin and end by definition, for
// tests of whatever cuts streams.
package sequencetest

import "github.com/eusn-stream/eusn-stream/reservoir"

// Span is a prediction by definition: over samples [From, To) of the stream,
// made when the sample before row To (or the sample that shows the silence)
// has been seen.
type Span struct {
	From, To int
	End      bool // it closes the sequence
}

// Spans lists the predictions the policy's definition asks for, in order,
// written without regard to how package sequence works. times and ends have one
// value per sample; last: the sequence ends with the last sample.
func Spans(p reservoir.Policy, times []int64, ends []bool, last bool) []Span {
	n := len(times)
	var out []Span
	switch p.Kind {
	case reservoir.Window:
		for to := 1; to <= n; to++ {
			if to >= p.Length && to%p.Hop == 0 {
				out = append(out, Span{to - p.Length, to, true})
			} else if p.Early > 0 && to%p.Early == 0 {
				from := 0
				for from+p.Length <= to {
					from += p.Hop
				}
				out = append(out, Span{from, to, false})
			}
		}
		return out
	}
	from := 0
	for to := 1; to <= n; to++ {
		closed := false
		switch p.Kind {
		case reservoir.Marked:
			closed = ends[to-1] || last && to == n
		case reservoir.Gap:
			closed = ends[to-1] || last && to == n
		case reservoir.Count:
			closed = to-from == p.Length
		}
		early := p.Early > 0 && (to-from)%p.Early == 0
		silence := p.Kind == reservoir.Gap && !closed && to < n && times[to]-times[to-1] > int64(p.Gap)
		if closed || early {
			out = append(out, Span{from, to, closed})
		}
		if silence {
			out = append(out, Span{from, to, true})
		}
		if closed || silence {
			from = to
		}
	}
	return out
}
