package machine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

func simulate(t *testing.T, o Options) *archive.Dataset {
	t.Helper()
	d, err := Simulate(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The bits are part of the demo's promise: a change here changes every published figure
// of the demo.
func TestMachineBits(t *testing.T) {
	d := simulate(t, Options{Train: 8, Test: 8, Seed: 7, Samples: 64})
	h := sha256.New()
	for _, s := range d.Series {
		if err := binary.Write(h, binary.LittleEndian, s.Values); err != nil {
			t.Fatal(err)
		}
	}
	const want = "ebf81b525cedef7b"
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != want {
		t.Errorf("series hash to %s, want %s: the simulation changed, or this platform rounds differently", got, want)
	}
}

func TestMachineShape(t *testing.T) {
	d := simulate(t, Options{Train: 40, Test: 20, Seed: 1})
	if got := len(d.Part(archive.Train)); got != 40 {
		t.Errorf("%d training series, want 40", got)
	}
	if got := len(d.Part(archive.Test)); got != 20 {
		t.Errorf("%d test series, want 20", got)
	}
	if !slices.IsSorted(d.Classes) {
		t.Errorf("classes %q are not sorted", d.Classes)
	}
	if !strings.Contains(d.Source.Note, "seed 1,") {
		t.Errorf("provenance %q does not tell the seed", d.Source.Note)
	}
	ids, count := map[string]bool{}, make([]int, 4)
	for i, s := range d.Series {
		if ids[s.ID] {
			t.Errorf("two series named %s", s.ID)
		}
		ids[s.ID] = true
		count[s.Label]++
		if d.Len(i) != DefaultSamples {
			t.Errorf("%s has %d samples, want %d", s.ID, d.Len(i), DefaultSamples)
		}
		for _, v := range s.Values {
			if !(math.Abs(float64(v)) < 100) {
				t.Fatalf("%s holds %v m/s^2", s.ID, v)
			}
		}
	}
	if !slices.Equal(count, []int{15, 15, 15, 15}) {
		t.Errorf("series per class %v, want 15 each", count)
	}
}

func TestMachineSeriesDependOnlyOnSeedAndName(t *testing.T) {
	few := simulate(t, Options{Train: 4, Test: 4, Seed: 3})
	many := simulate(t, Options{Train: 12, Test: 8, Seed: 3})
	other := simulate(t, Options{Train: 4, Test: 4, Seed: 4})
	if !slices.Equal(few.Series[3].Values, many.Series[3].Values) {
		t.Error("train-3 changes with the number of training series")
	}
	if !slices.Equal(few.Series[4].Values, many.Series[12].Values) {
		t.Error("test-0 changes with the number of training series")
	}
	if slices.Equal(few.Series[0].Values, few.Series[4].Values) {
		t.Error("train-0 and test-0 are the same series")
	}
	if slices.Equal(few.Series[0].Values, other.Series[0].Values) {
		t.Error("two seeds give the same series")
	}
}

// Each condition must show its physics: without noise, over a second, the spectrum of the
// envelope (here the squared signal) peaks at the rate of the impacts, and only an
// imbalance shakes strongly at the shaft's own rate.
func TestMachinePhysics(t *testing.T) {
	o := Options{Train: 40, Test: 4, Seed: 5, Samples: DefaultRate, Noise: -1}
	d := simulate(t, o)
	for _, i := range d.Part(archive.Train) {
		s := d.Series[i]
		shaft := newDraw(o.Seed, archive.Train, i).between(24, 33)
		horizontal, squared := column(s.Values, 0), column(s.Values, 1)
		for k, v := range squared {
			squared[k] = v * v
		}
		once := amplitude(horizontal, shaft)
		if heavy := once > 0.35; heavy != (s.Label == imbalance) {
			t.Errorf("%s, %s: amplitude %.2f m/s^2 at the shaft's rate", s.ID, d.Classes[s.Label], once)
		}
		// Slip widens the line; 2 % of 4 Hz allows a small shift.
		inner, outer := peak(squared, 5.4152*shaft), peak(squared, 3.5848*shaft)
		switch {
		case s.Label == innerRace && inner < 2*outer:
			t.Errorf("%s, inner race: envelope %.3f at BPFI, %.3f at BPFO", s.ID, inner, outer)
		case s.Label == outerRace && outer < 2*inner:
			t.Errorf("%s, outer race: envelope %.3f at BPFO, %.3f at BPFI", s.ID, outer, inner)
		}
	}
}

func column(v []float32, c int) []float64 {
	out := make([]float64, len(v)/3)
	for k := range out {
		out[k] = float64(v[3*k+c])
	}
	return out
}

// amplitude is the amplitude at a frequency in Hz, by correlation over the whole series.
func amplitude(x []float64, hz float64) float64 {
	var re, im, mean float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for k, v := range x {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(k) / DefaultRate)
		re, im = re+(v-mean)*cos, im+(v-mean)*sin
	}
	return 2 * math.Hypot(re, im) / float64(len(x))
}

// peak is the largest amplitude within 2 % of a frequency.
func peak(x []float64, hz float64) float64 {
	best := 0.0
	for f := 0.98 * hz; f <= 1.02*hz; f += 0.25 {
		best = max(best, amplitude(x, f))
	}
	return best
}

// The task must be neither trivial nor hopeless. The nearest neighbor by raw samples is
// the simple method that the simulation must defeat: chance is a quarter.
func TestMachineIsNotTrivial(t *testing.T) {
	d := simulate(t, Options{Train: 200, Test: 200, Seed: 1})
	train, right := d.Part(archive.Train), 0
	for _, i := range d.Part(archive.Test) {
		best, label := math.Inf(1), -1
		for _, j := range train {
			if dist := distance(d.Series[i].Values, d.Series[j].Values); dist < best {
				best, label = dist, d.Series[j].Label
			}
		}
		if label == d.Series[i].Label {
			right++
		}
	}
	if acc := float64(right) / 200; acc < 0.35 || acc > 0.65 {
		t.Errorf("nearest neighbor is right for %.2f of the series, want 0.35 to 0.65", acc)
	}
}

func distance(a, b []float32) float64 {
	var sum float64
	for k, v := range a {
		sum += float64(v-b[k]) * float64(v-b[k])
	}
	return sum
}

func TestMachineRefuses(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Train: 3}, "at least 4"},
		{Options{Test: -1}, "at least 4"},
		{Options{Samples: 5}, "at least 16"},
		{Options{Rate: 2000}, "3000 to 1e6"},
		{Options{Rate: math.NaN()}, "3000 to 1e6"},
		{Options{Noise: math.Inf(1)}, "at most 1000"},
		{Options{Train: 1 << 20, Samples: 1 << 20}, "in all"},
	} {
		_, err := Simulate(context.Background(), c.o, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.o, err, c.want)
		}
	}
}

func TestMachineStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	seen := int64(0)
	_, err := Simulate(ctx, Options{Seed: 1}, func(done, total int64, _ string) {
		if seen = done; done == 10 {
			cancel()
		}
		if total != 2*DefaultSeries {
			t.Errorf("total %d, want %d", total, 2*DefaultSeries)
		}
	})
	if !errors.Is(err, context.Canceled) || seen != 10 {
		t.Errorf("error %v after %d series, want context.Canceled after 10", err, seen)
	}
}

// 4e-15 is the rounding of 2 pi x turn for 16 turns (half a unit in the last place of
// 100) and a few roundings of the polynomial.
func TestWaves(t *testing.T) {
	for k := -3200; k <= 3200; k++ {
		turn := float64(k) / 200
		_, frac := math.Modf(turn) // exact, so that math.Sin gets no large argument
		if got, want := sine(turn), math.Sin(2*math.Pi*frac); math.Abs(got-want) > 4e-15 {
			t.Errorf("sine(%v) = %v, want %v", turn, got, want)
		}
	}
}
