package embedding

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func newNetwork(t testing.TB, s Spec) *Network {
	t.Helper()
	n, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// noise returns documents of random length, words and class.
func noise(seed uint64, n int, s Spec) []Document {
	rng := rand.New(rand.NewPCG(seed, 1))
	documents := make([]Document, n)
	for i := range documents {
		tokens := make([]int32, 1+rng.IntN(s.Steps))
		for k := range tokens {
			tokens[k] = int32(rng.IntN(s.Words))
		}
		documents[i] = Document{tokens, rng.IntN(s.Classes)}
	}
	return documents
}

// moods are documents of neutral words, 0 to 19, and three words of their class.
func moods(seed uint64, n int, s Spec) []Document {
	documents := noise(seed, n, Spec{Words: 20, Steps: s.Steps - 3, Classes: s.Classes})
	rng := rand.New(rand.NewPCG(seed, 2))
	for i := range documents {
		d := &documents[i]
		for range 3 {
			word := int32(20 + d.Class*8 + rng.IntN(8))
			d.Tokens = slices.Insert(d.Tokens, rng.IntN(len(d.Tokens)+1), word)
		}
	}
	return documents
}

// plainScores implements the package comment, word for word, for one document.
func plainScores(n *Network, d Document) []float64 {
	s, w := n.Spec, &n.weights
	var x []float64
	for range s.Steps - len(d.Tokens) {
		x = append(x, w.vectors.Row(0)...)
	}
	for _, word := range d.Tokens {
		x = append(x, w.vectors.Row(int(word))...)
	}
	scores := slices.Clone(w.outBias)
	for h := range s.Hidden {
		a := w.bias[h]
		for i, v := range x {
			a += v * w.hidden.Row(i)[h]
		}
		for k := range scores {
			scores[k] += math.Max(0, a) * w.output.Row(h)[k]
		}
	}
	return scores
}

// The scores of documents in a batch follow the equations, except for the rounding of
// sums in another order.
func TestForwardIsTheEquations(t *testing.T) {
	s := Spec{Words: 30, Width: 5, Steps: 9, Hidden: 11, Classes: 4, Seed: 3}
	n := newNetwork(t, s)
	documents := noise(1, rows-3, s)
	scores := n.forward(documents)
	for i, d := range documents {
		for k, want := range plainScores(n, d) {
			if got := scores.Row(i)[k]; !(math.Abs(got-want) <= 1e-15) {
				t.Errorf("document %d, score %d: %v, want %v", i, k, got, want)
			}
		}
	}
}

// Every derivative equals the central difference. With a step of 1e-5 central differences
// have an error of some 1e-10 (the third derivative times the step's square, rounding
// over the step). The error is larger if a unit's argument changes sign within the step;
// with this seed, none does.
func TestGradientIsTheLoss(t *testing.T) {
	for _, classes := range []int{2, 4} {
		t.Run(fmt.Sprint(classes), func(t *testing.T) {
			s := Spec{Words: 12, Width: 3, Steps: 6, Hidden: 7, Classes: classes, Seed: 5}
			n := newNetwork(t, s)
			rng := rand.New(rand.NewPCG(8, 9))
			for i := range n.weights.all {
				n.weights.all[i] += 0.3 * rng.NormFloat64() // including biases
			}
			documents := noise(3, 25, s)
			g := newWeights(s)
			n.addGradient(documents, &g)
			const step = 1e-5
			loss := func() float64 {
				l, _, err := n.Ask(t.Context(), documents)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			worst := 0.0
			for i, w := range n.weights.all {
				n.weights.all[i] = w + step
				up := loss()
				n.weights.all[i] = w - step
				down := loss()
				n.weights.all[i] = w
				d := math.Abs((up-down)/(2*step) - g.all[i])
				worst = max(worst, d)
				if !(d <= 1e-8) {
					t.Errorf("weight %d of %d: gradient %g, differences %g", i, len(g.all), g.all[i], (up-down)/(2*step))
				}
			}
			t.Logf("largest difference %.1e", worst)
		})
	}
}

// Vectors of words outside a batch are updated as with gradient 0: bit for bit as in a
// dense RMSProp.
func TestSparseIsDense(t *testing.T) {
	s := Spec{Words: 60, Width: 4, Steps: 5, Hidden: 6, Classes: 3, Seed: 4}
	n := newNetwork(t, s)
	gradient := newWeights(s)
	w, square, dense := slices.Clone(n.weights.all), make([]float64, s.parameters()), make([]float64, s.parameters())
	touched := 0
	for batch := range 20 {
		n.addGradient(noise(uint64(batch), 4, s), &gradient)
		for i, g := range gradient.all {
			if g != 0 {
				touched++
			}
			dense[i] = float64(decay*dense[i]) + float64((1-decay)*float64(g*g))
			w[i] -= rate * g / (math.Sqrt(dense[i]) + epsilon)
		}
		descend(n.weights.all, square, gradient.all)
		if !slices.Equal(n.weights.all, w) || !slices.Equal(square, dense) {
			t.Fatalf("batch %d: other weights or mean squares than those of dense updates", batch)
		}
		if slices.ContainsFunc(gradient.all, func(g float64) bool { return g != 0 }) {
			t.Fatalf("batch %d: the gradient is not cleared", batch)
		}
	}
	if share := float64(touched) / float64(20*len(w)); share < 0.1 || share > 0.8 {
		t.Errorf("%.2f of the gradients are not 0: nothing sparse is tested", share)
	}
}

// By hand: from w = 1 and v = 0 with gradients 2, 0 and -1, v is .4, .36, .424.
func TestRMSProp(t *testing.T) {
	w, v := []float64{1}, []float64{0}
	want := 1.0
	for _, c := range []struct{ g, v float64 }{{2, .4}, {0, .36}, {-1, .424}} {
		want -= .001 * c.g / (math.Sqrt(c.v) + 1e-7)
		descend(w, v, []float64{c.g})
		if math.Abs(w[0]-want) > 1e-15 || math.Abs(v[0]-c.v) > 1e-15 {
			t.Errorf("gradient %v: w %v, v %v, want %v and %v", c.g, w[0], v[0], want, c.v)
		}
	}
}

// The network learns, with exactly these numbers. The numbers change only with weights,
// order of batches, gradients or optimizer; on other architectures exponentials differ in
// last bits.
func TestLearns(t *testing.T) {
	for _, c := range []struct{ classes, epochs, correct int }{{2, 5, 194}, {5, 14, 186}} {
		s := Spec{Words: 60, Width: 8, Steps: 12, Hidden: 32, Classes: c.classes, Seed: 2}
		n := newNetwork(t, s)
		r, err := n.Train(t.Context(), moods(1, 400, s), moods(2, 100, s), Options{Epochs: c.epochs, Patience: 10})
		if err != nil {
			t.Fatal(err)
		}
		_, correct, err := n.Ask(t.Context(), moods(3, 200, s))
		if err != nil || correct != c.correct && (runtime.GOARCH == "amd64" || correct < 150) {
			t.Errorf("%d classes: %d of 200 right after %+v, %v; want %d", c.classes, correct, r, err, c.correct)
		}
	}
}

// The report has the epochs of the smallest and the last loss, the final weights belong
// to the requested epoch, and the forecast number of documents is exact.
func TestEpochs(t *testing.T) {
	s := Spec{Words: 60, Width: 8, Steps: 12, Hidden: 64, Classes: 3, Seed: 2}
	learn, validation := noise(1, 200, s), noise(2, 50, s) // random classes: the network can only memorize
	for _, last := range []bool{false, true} {
		n := newNetwork(t, s)
		var done, expected int
		o := Options{Epochs: 100, Patience: 4, Last: last, Batch: func(d, e int) {
			if d <= done || e < d {
				t.Errorf("%d of %d documents after %d", d, e, done)
			}
			done, expected = d, e
		}}
		r, err := n.Train(t.Context(), learn, validation, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Last.Number != r.Best.Number+4 || !(r.Last.Loss > r.Best.Loss) || done != 250*r.Last.Number || expected != done {
			t.Errorf("%+v, %d of %d documents", r, done, expected)
		}
		want := r.Best
		if last {
			want = r.Last
		}
		loss, correct, _ := n.Ask(t.Context(), validation)
		if loss != want.Loss || float64(correct)/50 != want.Accuracy {
			t.Errorf("last %v: loss %v, %d right at the end, want %+v", last, loss, correct, want)
		}
	}
}

// Products and updates of this size are divided among threads.
func TestSameOnAnyThreads(t *testing.T) {
	var want []float64
	for _, threads := range []int{1, 4} {
		old := runtime.GOMAXPROCS(threads)
		s := Spec{Words: 3000, Width: 32, Steps: 60, Hidden: 100, Classes: 5, Seed: 2}
		n := newNetwork(t, s)
		_, err := n.Train(t.Context(), noise(1, 150, s), noise(2, 20, s), Options{Epochs: 2, Patience: 9})
		runtime.GOMAXPROCS(old)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = n.weights.all
		} else if !slices.Equal(want, n.weights.all) {
			t.Errorf("other weights on %d threads", threads)
		}
	}
}

// NaN weights end the training, with a report.
func TestBlowsUp(t *testing.T) {
	s := Spec{Words: 60, Width: 8, Steps: 12, Hidden: 8, Classes: 3, Seed: 2}
	n := newNetwork(t, s)
	n.weights.outBias[0] = math.Inf(1)
	r, err := n.Train(t.Context(), noise(1, 40, s), noise(2, 9, s), Options{Epochs: 50, Patience: 10})
	if err != nil || r.Last.Number != 1 || r.Best.Number != 0 || r.Last.Loss == r.Last.Loss {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefuses(t *testing.T) {
	s := Spec{Words: 20, Width: 2, Steps: 4, Hidden: 3, Classes: 3, Seed: 2}
	for _, bad := range []Spec{
		{}, {Words: 1, Width: 1, Steps: 1, Hidden: 1, Classes: 1}, {Words: 1, Width: 1, Steps: 1, Hidden: -1, Classes: 2},
		{Words: 1 << 24, Width: 1 << 24, Steps: 1 << 24, Hidden: 1 << 24, Classes: 2}, {Words: math.MaxInt, Width: 1, Steps: 1, Hidden: 1, Classes: 2},
		{Words: 1 << 21, Width: 32, Steps: 200, Hidden: 128, Classes: 2},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	good, fine := noise(1, 5, s), Options{Epochs: 1, Patience: 1}
	for _, c := range []struct {
		learn, validation []Document
		o                 Options
	}{
		{nil, good, fine},
		{good, nil, fine},
		{good, good, Options{Epochs: 1}},
		{good, good, Options{Patience: 1}},
		{[]Document{{nil, 0}}, good, fine},
		{[]Document{{make([]int32, 5), 0}}, good, fine},
		{[]Document{{[]int32{20}, 0}}, good, fine},
		{good, []Document{{[]int32{-1}, 0}}, fine},
		{good, []Document{{[]int32{1}, 3}}, fine},
		{good, []Document{{[]int32{1}, -1}}, fine},
	} {
		if _, err := newNetwork(t, s).Train(t.Context(), c.learn, c.validation, c.o); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := newNetwork(t, s).Train(ctx, good, good, fine); !errors.Is(err, enough) {
		t.Errorf("canceled: %v", err)
	}
}

// go test -run '^$' -bench Batch ./internal/offline/embedding A batch of the paper's
// network: gradient and update. Multiply-adds of the hidden layer only, three times those
// of the forward run.
func BenchmarkBatch(b *testing.B) {
	s := Spec{Words: 10000, Width: 32, Steps: 200, Hidden: 128, Classes: 2, Seed: 1}
	n := newNetwork(b, s)
	batch, g, square := noise(1, rows, s), newWeights(s), make([]float64, s.parameters())
	b.ReportAllocs()
	for b.Loop() {
		n.addGradient(batch, &g)
		descend(n.weights.all, square, g.all)
	}
	b.ReportMetric(3*2*rows*200*32*128*float64(b.N)/b.Elapsed().Seconds()/1e9, "gflop/s")
}
