package readout

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// temper finds the scale tau at which scores are log-likelihoods: the softmax
// of tau * scores has the least mean negative logarithm at the labels, which
// is the second result. It is convex in tau, so the zero of its slope is
// bracketed and halved on the logarithm, until tau is known to one part in a
// thousand; it is then one of a grid of so many, so that the last bits of an
// exponential do not show. Where all scores are right the least is at
// infinity: tau ends where the loss has no more to lose.
func temper(scores dense.Matrix, labels []int) (tau, loss float64) {
	const grid = 10 // steps per octave, as a power of two: 1024
	largest := 0.0
	for i, label := range labels {
		for _, s := range scores.Row(i) {
			largest = max(largest, math.Abs(s-scores.Row(i)[label]))
		}
	}
	if largest == 0 || math.IsInf(largest, 0) || largest != largest {
		return 1, math.Inf(1)
	}
	// From all scores within a thousandth, to a difference of a millionth of
	// the largest counting e^32.
	_, unit := math.Frexp(largest)
	lo, hi := (-10-unit)<<grid, (25-unit)<<grid
	at := func(step int) float64 {
		return math.Ldexp(1+float64(step&(1<<grid-1))/(1<<grid), step>>grid)
	}
	for hi-lo > 1 {
		mid := (lo + hi) >> 1
		if _, slope := logLoss(scores, labels, at(mid)); slope < -1e-12*largest {
			lo = mid
		} else {
			hi = mid
		}
	}
	loss, _ = logLoss(scores, labels, at(lo))
	return at(lo), loss
}

// logLoss is the mean of -log softmax(tau * scores) at the labels, and its
// slope in tau.
func logLoss(scores dense.Matrix, labels []int, tau float64) (loss, slope float64) {
	for i, label := range labels {
		row := scores.Row(i)
		top := slices.Max(row)
		var sum, weighted float64
		for _, s := range row {
			p := math.Exp(tau * (s - top))
			sum += p
			weighted += p * (s - top)
		}
		own := row[label] - top
		loss += math.Log(sum) - tau*own
		slope += weighted/sum - own
	}
	n := float64(len(labels))
	return loss / n, slope / n
}
