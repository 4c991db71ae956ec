package offline

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The tables of docs/results.md about answers with a stated error, and about sets that follow labels. Each draw
// redivides all series of a set, half and half, 1,000 a part at most. In the second half of the test part, which is
// in a random order, each value has noise of half the deviation of its series: a planted shift.
func TestDoubtOfRealData(t *testing.T) {
	if !parts.Accuracy("doubt") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
	}
	const draws, level, rate, confidence = 5, .9, .02, .95
	broken, answers := map[float64]int{}, 0
	for _, name := range []string{"ECG5000", "FaceAll", "MedicalImages", "PhalangesOutlinesCorrect", "SwedishLeaf", "CharacterTrajectories", "ShapesAll", "ItalyPowerDemand"} {
		set := realDataset(t, name)
		spec, err := reservoir.Bank("small", len(set.Channels))
		if err != nil {
			t.Fatal(err)
		}
		maxErrors := []float64{.02, .05}
		var train, test int
		var all, answered, wrong [2]float64
		var above, some [2]int // draws with more errors than stated, and with any answer
		var plain, fixed, adaptive, late, bound, sizes, fixedSizes float64
		for draw := range uint64(draws) {
			d := halved(set, draw)
			m, r := retrained(t, d, RetrainOptions{Spec: spec, Coverage: level, adaptive: rate}) // keeps the left-out sequences
			l, left := m.Readouts[0], r.Readout.Left
			p, right := make([]float32, left.Scores.Rows), make([]bool, left.Scores.Rows)
			for row := range p {
				p[row], right[row] = leftProbability(l, left.Scores.Row(row), r.Readout.Left, row, d)
			}
			for k, maxError := range maxErrors {
				if l.Abstain, _, err = abstain.Learn(maxError, confidence, len(l.Classes), p, right); err != nil {
					t.Fatal(err)
				}
				ev := evaluated(t, m, d, EvaluateOptions{})
				train, test, plain = r.Sequences, ev.Labeled, plain+ev.Sets.Coverage/draws/2
				c := ev.Answers
				all[k] += c.All / draws
				answered[k] += float64(c.Answered) / float64(c.Samples) / draws
				if c.Error == nil {
					continue
				}
				answers++
				some[k]++
				wrong[k] += *c.Error
				if *c.Error > maxError {
					above[k]++
					broken[maxError]++
				}
			}
			shifted := noisy(d, draw)
			for _, delay := range []int{0, 50} {
				adapted, err := evaluated(t, m, shifted, EvaluateOptions{}).adapt(m, rate, delay)
				if err != nil {
					t.Fatal(err)
				}
				a := adapted.Adaptive
				if math.Abs(a.Coverage-level) > a.Bound {
					t.Errorf("%s, draw %d, %d late: %+v is out of its bound", name, draw, delay, a)
				}
				if delay > 0 {
					late += a.Coverage / draws
					continue
				}
				fixed, adaptive, bound = fixed+a.Fixed/draws, adaptive+a.Coverage/draws, a.Bound
				sizes, fixedSizes = sizes+a.Size/draws, fixedSizes+a.FixSize/draws
			}
		}
		for k, maxError := range maxErrors {
			t.Logf("answers | %s | %d, %d | %.4f | %g | %.3f | %.4f | %d of %d |", name, train, test, all[k], maxError, answered[k], wrong[k]/float64(max(1, some[k])), above[k], some[k])
		}
		t.Logf("adaptive | %s | %d | %.3f | %.3f | %.2f | %.3f | %.3f | %.4f | %.2f |", name, test, plain, fixed, fixedSizes, adaptive, late, bound, sizes)
	}
	t.Logf("%d evaluations with answers; of %v more than stated were wrong", answers, broken)
}

// leftProbability is the probability of the predicted class of a left-out sample, and whether the class is right.
func leftProbability(l *readout.Linear, row []float64, left *fit.Left, k int, d *archive.Dataset) (float32, bool) {
	scores := make([]float32, l.Columns())
	for c := range scores {
		scores[c] = float32(row[len(row)-len(scores)+c])
	}
	if left.Samples != nil {
		k = left.Samples[k]
	}
	return l.Probability(scores), l.Class(scores) == d.Series[d.Part(archive.Train)[k]].Label
}

// halved divides all series of a set at random, half and half, 1,000 a part at most.
func halved(set *archive.Dataset, draw uint64) *archive.Dataset {
	d := *set
	d.Series = nil
	order := rand.New(rand.NewPCG(draw, 19)).Perm(len(set.Series))
	half := min(len(order)/2, 1000)
	for k, i := range order[:2*half] {
		s := set.Series[i]
		s.Split = []archive.Split{archive.Train, archive.Test}[k/half]
		d.Series = append(d.Series, s)
	}
	return &d
}

// noisy adds noise of half its deviation to each series of the second half of the test part.
func noisy(d *archive.Dataset, draw uint64) *archive.Dataset {
	next := *d
	next.Series = slices.Clone(d.Series)
	rng := rand.New(rand.NewPCG(draw, 20))
	test := d.Part(archive.Test)
	for _, i := range test[len(test)/2:] {
		values := slices.Clone(d.Series[i].Values)
		sum, squares, n := 0., 0., 0.
		for _, v := range values {
			if v == v {
				sum, squares, n = sum+float64(v), squares+float64(v)*float64(v), n+1
			}
		}
		deviation := math.Sqrt(max(0, squares/n-sum/n*sum/n))
		for k := range values {
			values[k] += float32(deviation / 2 * rng.NormFloat64())
		}
		next.Series[i].Values = values
	}
	return &next
}
