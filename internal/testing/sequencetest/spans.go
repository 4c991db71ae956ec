// Package sequencetest computes by definition where sequences begin and end, for tests of
// code that splits streams.
package sequencetest

import "github.com/eusn-stream/eusn-stream/reservoir"

// Span is a prediction by definition: over samples [From, To) of the stream, made after
// the sample before row To (or the sample that reveals the silence).
type Span struct {
	From, To int
	End      bool // closes the sequence
}

// windowSpans is Spans for windows over n samples.
func windowSpans(p reservoir.Policy, n int) (out []Span) {
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

// isPauseBefore reports whether a silence before sample i ends the sequence.
func isPauseBefore(p reservoir.Policy, times []int64, i int) bool {
	return p.Kind == reservoir.Gap && i < len(times) && times[i]-times[i-1] > int64(p.Gap)
}

// Spans lists the predictions of the policy's definition, in order, without the methods
// of package sequence. times and ends have a value per sample; last: the sequence ends
// with the last sample.
func Spans(p reservoir.Policy, times []int64, ends []bool, last bool) []Span {
	n := len(times)
	var out []Span
	if p.Kind == reservoir.Window {
		return windowSpans(p, n)
	}
	from := 0
	for to := 1; to <= n; to++ {
		closed := false
		switch p.Kind {
		case reservoir.Marked, reservoir.Gap:
			closed = ends[to-1] || last && to == n
		case reservoir.Count:
			closed = to-from == p.Length
		}
		early := p.Early > 0 && (to-from)%p.Early == 0
		silence := !closed && isPauseBefore(p, times, to)
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
