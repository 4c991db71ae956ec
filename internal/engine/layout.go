package engine

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Layout gives the places in a slot's state, in 32-bit words. The state is the
// whole state of a stream's sequence: a snapshot stores it, a digest covers it
// and a reset clears it. Numbers are float32 bits except the counts.
//
//	word 0, 1          samples since the reset, low and high half
//	Previous           the previous raw sample, Channels words (with Difference)
//	Member(r)          first word of member r; within it, N words each of
//	  State            h
//	  SumLow, SumHigh  sum of h                (mean or std)
//	  Positive         samples with a positive tanh argument, uint32   (ppv)
//	  Max              largest tanh; -1 at reset                       (max)
//	  SquareLow, SquareHigh  sum of h*h        (std): low = fma(h, h, low)
//
// Sums are kept in two levels so that long sequences do not lose small samples:
// each sample is added to the low word, which every FoldEvery samples is added
// to the high word and cleared.
//
// An offset is -1 if the state has no such part. The state of kind mixed
// differs after Previous: docs/mixed-bank.md.
type Layout struct {
	Words       int
	Previous    int
	First       int // word of member 0
	MemberWords int
	State, SumLow, SumHigh, Positive, Max,
	SquareLow, SquareHigh int

	Mixed *MixedLayout // nil but for kind mixed
}

// FoldEvery is the number of samples in a low-level sum.
const FoldEvery = 256

// LayoutOf is the state layout of a recipe.
func LayoutOf(s reservoir.Spec) Layout {
	if s.Kind == reservoir.Mixed {
		return layoutOfMixed(s)
	}
	l := Layout{Words: 2, Previous: -1}
	if s.Difference {
		l.Previous = l.Words
		l.Words += s.Channels
	}
	l.First = l.Words
	part := func(has bool) int {
		if !has {
			return -1
		}
		l.MemberWords += s.Units
		return l.MemberWords - s.Units
	}
	sums := s.Has(reservoir.Mean) || s.Has(reservoir.Std)
	l.State = part(true)
	l.SumLow = part(sums)
	l.SumHigh = part(sums)
	l.Positive = part(s.Has(reservoir.Positive))
	l.Max = part(s.Has(reservoir.Max))
	l.SquareLow = part(s.Has(reservoir.Std))
	l.SquareHigh = part(s.Has(reservoir.Std))
	l.Words += s.Members * l.MemberWords
	return l
}

// Member is the first word of member r.
func (l Layout) Member(r int) int { return l.First + r*l.MemberWords }

// Steps reads the samples since the reset from a state.
func (l Layout) Steps(state []uint32) uint64 { return uint64(state[0]) | uint64(state[1])<<32 }

func (l *Layout) SetSteps(state []uint32, n uint64) { state[0], state[1] = uint32(n), uint32(n>>32) }

// Reset starts a new sequence in a state.
func (l Layout) Reset(s reservoir.Spec, state []uint32) {
	if l.Mixed != nil {
		l.Mixed.reset(&l, state)
		return
	}
	clear(state[:l.First])
	for r := range s.Members {
		l.ResetMember(s.Units, state, r)
	}
}

// ResetMember resets member r's part of a state.
func (l *Layout) ResetMember(units int, state []uint32, r int) {
	words := state[l.Member(r):][:l.MemberWords]
	clear(words)
	if l.Max < 0 {
		return
	}
	for i := range units {
		words[l.Max+i] = math.Float32bits(-1)
	}
}

// CheckState reports whether a state could have come from an engine of this
// recipe, by length, finite numbers, and counts in range.
func (l Layout) CheckState(s reservoir.Spec, state []uint32) error {
	if len(state) != l.Words {
		return fmt.Errorf("reservoir: state has %d words, want %d", len(state), l.Words)
	}
	steps := l.Steps(state)
	if steps > reservoir.MaxSteps {
		return fmt.Errorf("reservoir: state counts %d samples, want at most %d", steps, uint64(reservoir.MaxSteps))
	}
	if l.Mixed != nil {
		return l.Mixed.checkState(&l, state)
	}
	for w := 2; w < l.Words; w++ {
		if l.Positive >= 0 && w >= l.First {
			if in := (w - l.First) % l.MemberWords; in >= l.Positive && in < l.Positive+s.Units {
				if uint64(state[w]) > steps {
					return fmt.Errorf("reservoir: state, word %d: %d positive samples of %d", w, state[w], steps)
				}
				continue
			}
		}
		if state[w]&0x7f800000 == 0x7f800000 {
			return fmt.Errorf("reservoir: state, word %d is %v, want a finite number", w, math.Float32frombits(state[w]))
		}
	}
	return nil
}

// FeaturesOf computes the feature vector of a state into dst (FeatureCount
// values). Canonical: one rounding per operation; the mean is sum/n, the
// standard deviation sqrt(max(0, fma(-mean, mean, squares/n))). Before the
// first sample every feature is 0.
func (l Layout) FeaturesOf(s reservoir.Spec, state []uint32, dst []float32) {
	steps := l.Steps(state)
	if steps == 0 {
		clear(dst[:s.FeatureCount()])
		return
	}
	if l.Mixed != nil {
		l.Mixed.features(&l, &s, state, dst)
		return
	}
	n := float32(int64(steps))
	at := func(w int) float32 { return math.Float32frombits(state[w]) }
	k := 0
	for r := range s.Members {
		m := l.Member(r)
		for _, f := range reservoir.AllFeatures {
			if !s.Has(f) {
				continue
			}
			for i := m; i < m+s.Units; i++ {
				var v float32
				switch f {
				case reservoir.Last:
					v = at(i + l.State)
				case reservoir.Mean:
					v = (at(i+l.SumHigh) + at(i+l.SumLow)) / n
				case reservoir.Positive:
					v = float32(int64(state[i+l.Positive])) / n
				case reservoir.Max:
					v = at(i + l.Max)
				case reservoir.Std:
					mean := (at(i+l.SumHigh) + at(i+l.SumLow)) / n
					v = deviation(mean, (at(i+l.SquareHigh)+at(i+l.SquareLow))/n)
				}
				dst[k] = v
				k++
			}
		}
	}
}

// UnitsOf reads every unit's h into dst (Members x Units values), member by member:
// the value after its last step, 0 before the first.
func (l Layout) UnitsOf(s reservoir.Spec, state []uint32, dst []float32) {
	for r := range s.Members {
		for i := range s.Units {
			w := l.Member(r) + l.State + i
			if l.Mixed != nil {
				place, block := l.Mixed.At(&l, r, i)
				w = block + BlockState + place
			}
			dst[r*s.Units+i] = math.Float32frombits(state[w])
		}
	}
}

// deviation returns sqrt(square - mean^2), 0 if rounding makes the difference negative.
func deviation(mean, square float32) float32 {
	v := canon.FMA(-mean, mean, square)
	if v > 0 {
		return float32(math.Sqrt(float64(v)))
	}
	return 0
}
