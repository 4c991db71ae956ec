package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// lines parses one JSON object a line.
func (r result) lines(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for s := bufio.NewScanner(strings.NewReader(r.out)); s.Scan(); {
		m := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatalf("%v in line %q", err, s.Text())
		}
		all = append(all, m)
	}
	return all
}

func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		part string
	}{
		{"--only gpu", exitUsage, "want engine or stage"},
		{"--time 0s", exitUsage, "--time 0s"},
		{"--units 0", exitUsage, "--units 0: want 1 to 8192"},
		{"--threads 1,-2", exitUsage, "--threads -2"},
		{"--bank 4 --inputs 3", exitUsage, "want an even number"},
		{"--bank -1", exitUsage, "--bank -1"},
		{"--only stage --units 50", exitUsage, "its network is fixed"},
		{"extra", exitUsage, "unknown command"},
		{"--engine gpu --only engine", exitUnreachable, "gpu: "},
		{"--streams 1000000 --steps 1000", exitFailure, "more than 1 GiB"},
		{"--only stage --dir /nowhere/at/all", exitFailure, "--dir"},
	} {
		r := exec(t, t.Context(), append([]string{"bench"}, strings.Fields(c.args)...)...)
		r.want(t, c.code, c.part)
		if c.code == exitUsage && r.out != "" {
			t.Errorf("%s: printed %q", c.args, r.out)
		}
	}
}

func TestBenchEngine(t *testing.T) {
	kind := reservoir.CPUKinds()[0]
	r := must(t, "bench", "--json", "-q", "--engine", kind, "--time", "1ms", "--units", "12,20", "--inputs", "3", "--streams", "5", "--steps", "4", "--threads", "1")
	var engines []map[string]any
	peak := 0.0
	for _, m := range r.lines(t) {
		switch m["bench"] {
		case "peak":
			peak = m["peak_gflops"].(float64)
		case "engine":
			engines = append(engines, m)
		default:
			t.Errorf("a line of %v", m)
		}
	}
	if len(engines) != 2 {
		t.Fatalf("%d rows, want one for each number of units:\n%s", len(engines), r.out)
	}
	for i, m := range engines {
		n := []float64{12, 20}[i]
		number := func(key string) float64 {
			v, ok := m[key].(float64)
			if !ok {
				t.Errorf("%s is %v in %v", key, m[key], m)
			}
			return v
		}
		if m["engine"] != kind || number("units") != n || number("inputs") != 3 || number("streams") != 5 || number("steps") != 4 || number("threads") != 1 || number("members") != 1 {
			t.Errorf("row %v", m)
		}
		if got, want := number("gflops")*1e3, number("mstep_per_s")*2*n*(n+3); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%g MFLOP/s, the rate says %g", got, want)
		}
		if kind == "generic" {
			continue // has no peak
		}
		if share := number("peak_share"); share <= 0 || peak <= 0 {
			t.Errorf("share %g of the peak, which is %g GFLOP/s", share, peak)
		}
	}
}

// Every default shape makes an engine, and a bank's inputs are those asked
// for.
func TestBenchShapes(t *testing.T) {
	o := benchOptions{}
	for _, s := range o.shapes(benchKind{}) {
		net, err := reservoir.Draw(s.spec())
		if err != nil || net.Spec.Inputs() != s.inputs {
			t.Errorf("%+v: %d inputs, %v", s, net.Spec.Inputs(), err)
		}
	}
	o = benchOptions{bank: 3, inputs: []int{2, 8}, streams: []int{1, 2, 3}}
	if all := o.shapes(benchKind{slow: true}); len(all) != 6 || all[5] != (benchShape{3, 50, 8, 3, 32, false}) {
		t.Errorf("shapes %+v", all)
	}
	b, err := newEngineBench(benchKind{open: func(net *reservoir.Network, slots, _ int) (reservoir.Engine, error) {
		return reservoir.NewGeneric(net, slots)
	}}, benchShape{0, 4, 1, 100, 1, true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var slots []int32
	for _, r := range b.runs {
		slots = append(slots, r.Slot)
	}
	if slices.IsSorted(slots) {
		t.Error("random order is in order")
	}
	slices.Sort(slots)
	if len(slices.Compact(slots)) != 100 {
		t.Error("random order leaves streams out")
	}
}

// What was measured before an interruption is printed.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errOut bytes.Buffer
	watch := &onWrite{&out, func() { time.AfterFunc(300*time.Millisecond, cancel) }} // the peaks come first
	code := run(ctx, []string{"bench", "--json", "--only", "engine", "--time", "1m", "--units", "10", "--inputs", "1", "--streams", "1", "--threads", "1,1"}, watch, &errOut)
	result{code, out.String(), errOut.String()}.want(t, exitInterrupted, "rows measured by then are printed")
	if !strings.Contains(out.String(), `"bench":"engine"`) {
		t.Errorf("no row of an engine in %s", out.String())
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	exec(t, gone, "bench", "--only", "stage").want(t, exitInterrupted, "nothing was measured")
}

type onWrite struct {
	*bytes.Buffer
	then func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.then()
	return w.Buffer.Write(p)
}

func TestBenchStage(t *testing.T) {
	dir := t.TempDir()
	r := must(t, "bench", "--json", "-q", "--only", "stage", "--partitions", "2", "--time", "100ms", "--dir", dir)
	m := r.lines(t)[0]
	// Bounds catch wrong units; a busy machine does not reach them.
	for key, most := range map[string]float64{
		"rows_per_s": 1e10, "bytes_per_s": 1e12, "engine_rows_per_s": 1e10, "engine_share": 1e3, "engine_time_share": 1e3,
		"paced_rows_per_s": 1e10, "p50_ms": 1e5, "p99_ms": 1e5, "latencies": 1e6,
	} {
		if v, ok := m[key].(float64); !ok || v <= 0 || v > most {
			t.Errorf("%s is %v, want more than 0, at most %g", key, m[key], most)
		}
	}
	if m["p99_ms"].(float64) < m["p50_ms"].(float64) || m["partitions"] != 2. || m["shards"] != float64(min(2, runtime.GOMAXPROCS(0))) {
		t.Errorf("row %v", m)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestArrivals(t *testing.T) {
	g := &arrivals{due: map[string][]time.Time{}, left: 3, all: make(chan struct{})}
	now := time.Now()
	g.expect("a", now.Add(-3*time.Second))
	g.expect("a", now.Add(-time.Second))
	g.expect("b", now.Add(-2*time.Second))
	take := func(stream string) error {
		return g.take(pipeline.Output{Predictions: []codec.Prediction{{Stream: stream}}})
	}
	for _, s := range []string{"a", "b", "a"} {
		select {
		case <-g.all:
			t.Fatal("complete too early")
		default:
		}
		if err := take(s); err != nil {
			t.Fatal(err)
		}
	}
	<-g.all
	if err := take("a"); err == nil {
		t.Error("a prediction of nothing passed")
	}
	ms := g.sorted(1500 * time.Millisecond) // after the first second and a half: only the last
	if len(ms) != 1 || ms[0] < 1000 || ms[0] > 1900 {
		t.Errorf("latencies %v", ms)
	}
	if v := []float64{1, 2, 3, 4}; quantile(v, .5) != 2 || quantile(v, .99) != 4 || quantile(v, 0) != 1 || quantile(nil, .5) != 0 || median(v) != 3 {
		t.Error("quantiles are wrong")
	}
}
