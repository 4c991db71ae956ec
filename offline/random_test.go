package offline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// levels is the simulated machine with a level of each channel that differs between series.
// The number of a series is the product of two levels, which no linear readout can predict.
func levels(t *testing.T, train, test int) *archive.Dataset {
	t.Helper()
	d, err := machine.Simulate(context.Background(), machine.Options{Seed: 5, Train: train, Test: test, Samples: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Target, d.Classes = "product", []string{"product"}
	rng := rand.New(rand.NewPCG(4, 2))
	c := len(d.Channels)
	for i := range d.Series {
		level := make([]float64, c)
		for k := range level {
			level[k] = 20*rng.Float64() - 10
		}
		for k := range d.Series[i].Values {
			d.Series[i].Values[k] += float32(level[k%c])
		}
		d.Series[i].SetNumber(level[0] * level[1] / 100)
	}
	return d
}

// predictInLibrary returns the library's answers for the test part, after the model was written and read.
func predictInLibrary(t *testing.T, m *reservoir.Model, d *archive.Dataset) []outcome.Answer {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := reservoir.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var series [][]float32
	for _, i := range d.Part(archive.Test) {
		series = append(series, d.Series[i].Values)
	}
	answers, err := classify.Predict(t.Context(), read, series)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// Random features learn a product, leave-one-out chooses them, and its error is that of new
// series. The model has the same bits on any number of threads, and the library predicts the
// same bits after the model was written and read.
func TestRandomFeaturesAreChosen(t *testing.T) {
	d := levels(t, 300, 100)
	opt := RetrainOptions{Spec: smallBank(3), Target: "product", Random: &RandomOptions{Units: 200, Means: []int{2, 32}}}
	m, r := retrained(t, d, opt)
	got := r.Random
	if got == nil || !got.Chosen || !(got.RMSE < got.Network/2) || got.RMSE != r.Readout.Numbers.RMSE || got.Units != 200 || got.Scale == 0 {
		t.Fatalf("%+v, errors %+v", got, r.Readout.Numbers)
	}
	if l := m.Readouts[0]; l.Random.Units() != 200 || l.Random.Statistics() != 2*len(d.Channels) || len(m.Front.Means) != 2 {
		t.Fatalf("%d units of %d statistics, front end %+v", l.Random.Units(), l.Random.Statistics(), m.Front)
	}
	opt.Threads = 1
	if other, _ := retrained(t, d, opt); fingerprint(t, other) != fingerprint(t, m) {
		t.Error("another model on one thread")
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	if ratio := ev.Numbers.RMSE / got.RMSE; ratio < .6 || ratio > 1.6 { // of 100 and of 300 series
		t.Errorf("error %v of the test part, %v of leave-one-out", ev.Numbers.RMSE, got.RMSE)
	}
	for i, a := range predictInLibrary(t, m, d) {
		if want := ev.Predictions[i].Number; a.Number != want {
			t.Fatalf("series %d: %+v in the library, %+v by Evaluate", i, a.Number, want)
		}
	}
}

// If most channels have no relation to the number, leave-one-out chooses weights by correlation, which are small for
// these channels.
func TestRandomFeaturesWeighStatistics(t *testing.T) {
	const channels = 8
	rng := rand.New(rand.NewPCG(4, 3))
	d := &archive.Dataset{Name: "wear", Target: "wear", Classes: []string{"wear"}, Channels: strings.Split("abcdefgh", "")}
	for i := range 200 {
		s, level := archive.Series{ID: fmt.Sprint(i), Split: archive.Train}, [channels]float64{}
		for c := range level {
			level[c] = 4*rng.Float64() - 2
		}
		for k := range 16 * channels {
			s.Values = append(s.Values, float32(level[k%channels]+.1*rng.NormFloat64()))
		}
		s.SetNumber(math.Max(0, level[0]))
		d.Series = append(d.Series, s)
	}
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(channels), Target: "wear", Random: &RandomOptions{Units: 100, Means: []int{4}, Always: true}})
	if r.Random == nil || !r.Random.Weighted {
		t.Fatalf("%+v", r.Random)
	}
	size := [channels]float64{} // sums of squares; each channel has a statistic of about the same deviation
	for i, w := range m.Readouts[0].Random.Weights {
		size[i%channels] += float64(w) * float64(w)
	}
	for c, v := range size[1:] { // a correlation by chance is below .25, that of the first channel is .86
		if v > size[0]/10 {
			t.Errorf("channel %d has %.3g of the weight of the first", c+1, v/size[0])
		}
	}
}

// If the network is better, the model is the same as without random features, unless they are
// always taken.
func TestRandomFeaturesAreNotChosen(t *testing.T) {
	d := shaken(t, 120, 20) // by mean squares: no running mean shows them
	opt := RetrainOptions{Spec: smallBank(3), Target: "shaking"}
	want, plain := retrained(t, d, opt)
	opt.Random = &RandomOptions{Units: 50}
	m, r := retrained(t, d, opt)
	if r.Random == nil || r.Random.Chosen || r.Random.Network != plain.Readout.Numbers.RMSE || !(r.Random.RMSE >= r.Random.Network) {
		t.Fatalf("%+v, the network's error is %v", r.Random, plain.Readout.Numbers.RMSE)
	}
	if fingerprint(t, m) != fingerprint(t, want) {
		t.Error("another model than without random features")
	}
	opt.Random.Always = true
	if m, r := retrained(t, d, opt); !r.Random.Chosen || m.Readouts[0].Random == nil || math.Abs(r.Random.RMSE-r.Readout.Numbers.RMSE) > 0 {
		t.Errorf("always: %+v", r.Random)
	}
}

func TestRandomFeaturesAreRefused(t *testing.T) {
	d := shaken(t, 20, 10)
	for want, opt := range map[string]RetrainOptions{
		"want 1 to 16384": {Target: "shaking", Random: &RandomOptions{Units: mostUnits + 1}},
		"ascending":       {Target: "shaking", Random: &RandomOptions{Means: []int{9, 3}}},
	} {
		opt.Spec = smallBank(3)
		if _, _, err := Retrain(t.Context(), d, opt, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := (&RandomOptions{}).checkRandom(""); err == nil || !strings.Contains(err.Error(), "want a target, too") {
		t.Errorf("without a target: %v", err)
	}
}
