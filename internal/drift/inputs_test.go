package drift_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/drift"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestInputs prints the table "Drift of inputs" of docs/results.md: the figure of a
// prediction that best shows a change of the inputs. EUSN_DRIFT_INPUTS is machine-SEED, a simulated
// machine, or the path of a data set, whose first class is learned.
func TestInputs(t *testing.T) {
	which := os.Getenv("EUSN_DRIFT_INPUTS")
	if which == "" {
		t.Skip("NOT CHECKED: a measurement of minutes: EUSN_DRIFT_INPUTS is machine-1, or the path of a data set")
	}
	var d *archive.Dataset
	var err error
	seed := uint64(0)
	if text, ok := strings.CutPrefix(which, "machine-"); ok {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		d, err = machine.Simulate(context.Background(), machine.Options{Train: 3200, Test: 4800, Seed: seed}, nil)
	} else {
		d, err = imports.Import(context.Background(), imports.Options{Dir: filepath.Clean(which)}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	in := newInputs(t, d)
	in.machine = seed
	plan, err := drift.NewPlan(1e6, .5)
	if err != nil {
		t.Fatal(err)
	}
	stable := in.numbers(t, in.series[0], func(x []float32, _ int) []float32 { return x })
	t.Logf("%s: %d series learned from, %d stable ones to draw from", d.Name, in.learned, len(stable[0]))
	for k, name := range in.names() {
		n := 0
		s, r := new(drift.Detector), rand.New(rand.NewPCG(5, uint64(k)))
		for range 1_000_000 {
			if s.Update(plan, stable[k][r.IntN(len(stable[k]))], r.Uint64()) != 0 {
				n++
			}
		}
		t.Logf("stable: %-12s %d false alarms in a million", name, n)
	}
	for _, c := range in.changes(t) {
		series := in.series[1]
		if c.series != nil {
			series = c.series
		}
		changed := in.numbers(t, series, c.change)
		line := fmt.Sprintf("%-24s", c.name)
		for k, name := range in.names() {
			line += fmt.Sprintf(" %s %s", name, delay(plan, stable[k], changed[k]))
		}
		t.Log(line)
	}
}

// delay returns the number of changed values until detection, median and 95 of 100.
func delay(plan drift.Plan, stable, changed []float32) string {
	const most = 5000
	var all []int
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		var d drift.Detector
		for range 5000 {
			d.Update(plan, stable[r.IntN(len(stable))], r.Uint64())
		}
		n := 1
		for n < most && d.Update(plan, changed[r.IntN(len(changed))], r.Uint64()) == 0 {
			n++
		}
		all = append(all, n)
	}
	slices.Sort(all)
	text := func(n int) string {
		if n == most {
			return "-"
		}
		return strconv.Itoa(n)
	}
	return text(all[50]) + "(" + text(all[95]) + ")"
}

// inputs has a model and the series of its class that were not used for training.
type inputs struct {
	d        *archive.Dataset
	m        *reservoir.Model
	readout  *readout.Linear // with a detector
	classify *readout.Linear // with classes
	learned  int
	machine  uint64              // seed of the simulated machine; 0: another data set
	series   [2][]archive.Series // stable series, and series to change
	dev      []float64           // per channel
	engine   reservoir.Engine
	second   reservoir.Engine // of the model with classes
}

func newInputs(t *testing.T, d *archive.Dataset) *inputs {
	t.Helper()
	class := 0
	in := &inputs{d: d}
	healthy := *d
	healthy.Series = nil
	for _, s := range d.Series {
		if s.Split == archive.Train {
			healthy.Series = append(healthy.Series, s)
		}
		if s.Label == class && s.Split == archive.Train {
			in.learned++
		}
	}
	m, report, err := offline.Retrain(context.Background(), &healthy, offline.RetrainOptions{Novelty: &offline.NoveltyOptions{HealthyOnly: true, Healthy: d.Classes[class], Inputs: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.m, in.readout = m, m.Readouts[0]
	t.Logf("shares of the inputs' variance that are read: %.4f", report.Novelty.Inputs)
	c, _, err := offline.Retrain(context.Background(), &healthy, offline.RetrainOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in.classify = c.Readouts[0]
	if in.engine, err = cpu.New(m.Network, 1, cpu.Options{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.engine.Close() })
	if in.second, err = cpu.New(c.Network, 1, cpu.Options{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.second.Close() })
	n := 0
	for _, s := range d.Series {
		if s.Label == class && s.Split == archive.Test {
			in.series[n%2] = append(in.series[n%2], s)
			n++
		}
	}
	channels := len(d.Channels)
	in.dev = make([]float64, channels)
	for c := range channels {
		in.dev[c] = m.Training.Inputs[c].Deviation
	}
	return in
}

// names returns the compared figures: the detector's score and its input figures of the first
// channel; statistics of the channel itself; the probability of the classes.
func (in *inputs) names() []string {
	return []string{"novelty", "level", "spread", "pace", "mean", "variance", "steps", "probability"}
}

// numbers returns the figures of each series, after a change.
func (in *inputs) numbers(t *testing.T, series []archive.Series, change func(x []float32, channels int) []float32) [][]float32 {
	t.Helper()
	d := in.readout.Novelty
	channels, f := len(in.d.Channels), d.Features()
	features := make([]float32, f)
	read := make([]float32, d.InputValues())
	var statistics [64]float64
	out := make([][]float32, len(in.names()))
	for _, s := range series {
		x := change(slices.Clone(s.Values), channels)
		if err := in.engine.Advance(x, []reservoir.Run{{Reset: true, To: int32(len(x) / channels)}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := in.second.Advance(x, []reservoir.Run{{Reset: true, To: int32(len(x) / channels)}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := in.second.Features(0, features); err != nil {
			t.Fatal(err)
		}
		classScores := make([]float32, in.classify.Columns())
		in.classify.Scores(classScores, features)
		row := make([]float32, len(in.names()))
		row[7] = in.classify.Probability(classScores)
		if err := in.engine.Features(0, features); err != nil {
			t.Fatal(err)
		}
		row[0] = d.Score(features)
		d.ReadInputs(read, features)
		copy(row[1:4], read)
		detect.Statistics(statistics[:], x, nil, channels)
		for k, v := range statistics[:novelty.InputsOf] {
			row[4+k] = float32(v)
		}
		for k := range out {
			out[k] = append(out[k], row[k])
		}
	}
	return out
}

type change struct {
	name   string
	change func(x []float32, channels int) []float32
	series []archive.Series // replaces the changed series
}

// changes returns changes of the first channel, and a change of rate. A change of .5, 1 or 2
// deviations is in deviations of the sequences' own statistic among the stable series: the size
// that a detector of this statistic would observe.
func (in *inputs) changes(t *testing.T) (all []change) {
	var stats [2][]float64
	for _, s := range in.series[0] {
		var of [64]float64
		detect.Statistics(of[:], s.Values, nil, len(in.d.Channels))
		stats[0], stats[1] = append(stats[0], of[0]), append(stats[1], of[1])
	}
	spread := func(v []float64) float64 {
		m, s := 0., 0.
		for _, x := range v {
			m += x / float64(len(v))
		}
		for _, x := range v {
			s += (x - m) * (x - m) / float64(len(v))
		}
		return math.Sqrt(s)
	}
	means, variances := spread(stats[0]), spread(stats[1])
	for _, size := range []float64{.5, 1, 2} {
		all = append(all, shiftChange(fmt.Sprintf("mean, %v of its own", size), size*means))
	}
	for _, size := range []float64{.1, .5, 1, 2} {
		all = append(all, shiftChange(fmt.Sprintf("mean, %v of samples'", size), size*in.dev[0]))
	}
	for _, size := range []float64{.5, 1, 2} {
		all = append(all, gainChange(fmt.Sprintf("variance, %v of its own", size), math.Exp(size*variances/2)))
	}
	for _, size := range []float64{1.05, 1.2, 1.5, 2} {
		all = append(all, gainChange(fmt.Sprintf("deviation times %v", size), size))
	}
	for _, rate := range []float64{1.01, 1.02, 1.05, 1.1} {
		if in.machine == 0 {
			continue
		}
		d, err := machine.Simulate(context.Background(), machine.Options{Train: 4, Test: 2400, Seed: in.machine + 100, Rate: rate * machine.DefaultRate}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := change{name: fmt.Sprintf("rate times %v", rate), change: func(x []float32, _ int) []float32 { return x }}
		for _, s := range d.Series {
			if s.Label == 0 && s.Split == archive.Test {
				c.series = append(c.series, s)
			}
		}
		all = append(all, c)
	}
	for _, a := range []float64{.1, .2, .4} {
		all = append(all, change{name: fmt.Sprintf("low pass %v", a), change: func(x []float32, channels int) []float32 {
			for i := channels; i < len(x); i += channels {
				x[i] = float32(a)*x[i-channels] + float32(1-a)*x[i]
			}
			return x
		}})
	}
	for _, size := range []float64{.1, .2, .5} {
		r := rand.New(rand.NewPCG(11, uint64(100*size)))
		all = append(all, change{name: fmt.Sprintf("noise of %v", size), change: func(x []float32, channels int) []float32 {
			for i := 0; i < len(x); i += channels {
				x[i] += float32(size * in.dev[0] * r.NormFloat64())
			}
			return x
		}})
	}
	return all
}

func shiftChange(name string, by float64) change {
	return change{name: name, change: func(x []float32, channels int) []float32 {
		for i := 0; i < len(x); i += channels {
			x[i] += float32(by)
		}
		return x
	}}
}

// gainChange widens around the series' own mean.
func gainChange(name string, by float64) change {
	return change{name: name, change: func(x []float32, channels int) []float32 {
		var of [64]float64
		detect.Statistics(of[:], x, nil, channels)
		m := float32(of[0])
		for i := 0; i < len(x); i += channels {
			x[i] = m + float32(by)*(x[i]-m)
		}
		return x
	}}
}
