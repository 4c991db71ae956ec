package offline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestTrainingAtScale trains on EUSN_SCALE simulated series of 200 samples of 3 channels with bank euler. The test
// prints a row of the table of docs/results.md: time, processor time, peak memory, and the floor, which is the time
// of the states and of n F^2 operations at the rates measured in the same run. With EUSN_SCALE_ARCHIVE the test only
// writes the series to this archive, for the program itself. EUSN_SCALE_BANK names another bank, and
// EUSN_SCALE_CLASSES selects series of this number of classes, of one channel.
func TestTrainingAtScale(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("EUSN_SCALE"))
	if err != nil {
		t.Skip("NOT CHECKED: a measurement: EUSN_SCALE=1000 asks for it")
	}
	ctx := context.Background()
	var d *archive.Dataset
	if classes, _ := strconv.Atoi(os.Getenv("EUSN_SCALE_CLASSES")); classes > 0 {
		d = manyClasses(n, classes)
	} else if d, err = machine.Simulate(ctx, machine.Options{Train: n, Test: 4, Samples: 200}, nil); err != nil {
		t.Fatal(err)
	}
	spec, err := reservoir.Bank(cmp.Or(os.Getenv("EUSN_SCALE_BANK"), "euler"), len(d.Channels))
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("EUSN_SCALE_ARCHIVE"); path != "" {
		if err := archive.WriteDataset(path, d); err != nil {
			t.Fatal(err)
		}
		return
	}
	product, sample := productSeconds(t), stateSeconds(t, d, spec)
	runtime.GC()
	cpu, start := processorTime(t), time.Now()
	var shares []string
	next := 0.1
	_, r, err := Retrain(ctx, d, RetrainOptions{Spec: spec}, func(done, total int64, _ string) {
		if share := float64(done) / float64(total); share >= next {
			spent, used := time.Since(start).Seconds(), processorTime(t)-cpu
			shares = append(shares, fmt.Sprintf("%.0f %% after %.1f s, %.1f s of processors: %.1f and %.1f s in all", 100*share, spent, used, spent/share, used/share))
			next = share + 0.1
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	wall, used := time.Since(start).Seconds(), processorTime(t)-cpu
	f := float64(spec.FeatureCount())
	states, products := sample*float64(r.Samples), product*float64(n)*f*f/2
	fmt.Printf("| %d | %.1f | %.1f | %s | %.1f + %.1f = %.1f | %.2f | %s |\n",
		n, wall, used, peakMemory(t), states, products, states+products, used/(states+products), r.Readout)
	fmt.Printf("kernel %v, %d left out, planned %s\nproducts %.1f GFLOP in a processor second, %.2f us a sample\nstates and adding %.1f s, solving %.1f s\n%s\n",
		r.Plan.Kernel, r.Plan.LeftOut, fit.Size(max(r.Plan.Adding, r.Plan.Solving)), 2e-9/product, 1e6*sample, r.StateSeconds, r.FitSeconds, strings.Join(shares, "\n"))
}

// manyClasses makes series of 200 samples: two tones with the frequencies of the class and random phases, in noise.
func manyClasses(n, classes int) *archive.Dataset {
	rng := rand.New(rand.NewPCG(1, 1))
	d := &archive.Dataset{Name: "tones", Channels: []string{"x"}}
	for k := range classes {
		d.Classes = append(d.Classes, fmt.Sprintf("%04d", k))
	}
	for i := range n {
		s := archive.Series{ID: fmt.Sprintf("train-%d", i), Split: archive.Train, Label: i % classes, Values: make([]float32, 200)}
		slow, fast := 2+float64(s.Label%10)/2, 15+2*float64(s.Label/10)
		p, q := rng.Float64(), rng.Float64()
		for k := range s.Values {
			at := float64(k) / 200
			s.Values[k] = float32(math.Sin(2*math.Pi*(slow*at+p)) + .7*math.Sin(2*math.Pi*(fast*at+q)) + rng.NormFloat64())
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// productSeconds is the processor time of a multiply-add in the fastest
// product there is: the outer products of a learner.
func productSeconds(t *testing.T) float64 {
	t.Helper()
	const samples, features, blocks = 768, 4000, 6
	labels := make([]int, features+blocks*samples) // more than features: moments are kept
	l, err := fit.NewLearner(features, []string{"a", "b"}, labels, fit.Options{Alphas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, samples*features)
	for i := range x {
		x[i] = float32(i%97) / 97
	}
	least := math.Inf(1)
	for range blocks {
		start := processorTime(t)
		if err := l.Add(x); err != nil {
			t.Fatal(err)
		}
		least = min(least, processorTime(t)-start)
	}
	return least / (samples * features * features / 2)
}

// stateSeconds is the processor time of a sample, over the first thousand series.
func stateSeconds(t *testing.T, d *archive.Dataset, spec reservoir.Spec) float64 {
	t.Helper()
	few := *d
	few.Series = nil
	for _, i := range d.Part(archive.Train)[:min(1000, len(d.Part(archive.Train)))] {
		few.Series = append(few.Series, d.Series[i])
	}
	src, _, err := trainingPart(&few, nil)
	if err != nil {
		t.Fatal(err)
	}
	job, err := newTraining(context.Background(), src, RetrainOptions{Spec: spec}.withDefaults(len(d.Channels)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := job.learner(0, len(few.Series))
	if err != nil {
		t.Fatal(err)
	}
	start := processorTime(t)
	if err := job.feed(context.Background(), l, src.sampleSource, job.plan, newForecast(nil, l.Plan(), 0, 0)); err != nil {
		t.Fatal(err)
	}
	return (processorTime(t) - start) / float64(job.plan.work)
}

// processorTime is the processor time of the process so far, in seconds.
func processorTime(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakMemory is the largest memory of the process so far.
func peakMemory(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("NOT CHECKED: the peak of memory: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}
