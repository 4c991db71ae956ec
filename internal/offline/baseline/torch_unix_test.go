//go:build unix

package baseline

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// peer is a process that trains PyTorch networks.
type peer struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func torch(t testing.TB) peer {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)").Run() != nil {
			continue
		}
		c := exec.Command(python, "testdata/epoch.py")
		// As tools/peers: the fastest kernels of PyTorch, on one thread.
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "OPENBLAS_") {
				c.Env = append(c.Env, v)
			}
		}
		c.Env = append(c.Env, "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1")
		c.Env = append(c.Env, capability()...)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); c.Wait() })
		return peer{in, bufio.NewReader(out)}
	}
	parts.Absent(t, "torch", "no python3 with torch (Debian: apt-get install python3-torch)")
	return peer{}
}

// capability returns the environment with the kernels for PyTorch, which selects AVX2 by
// itself.
func capability() []string {
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
		return []string{"ATEN_CPU_CAPABILITY=avx512"}
	}
	return nil
}

// send sends a line and returns the answer.
func (p peer) send(t testing.TB, line string) string {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal("epoch.py ended: ", err)
	}
	return strings.TrimSpace(answer)
}

// request requests "epoch" or "loss".
func (p peer) request(t testing.TB, what string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(p.send(t, what), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// start sends the current network.
func (p peer) start(t testing.TB, n *Network, series []Series, o Options, threads int) {
	t.Helper()
	line, err := json.Marshal(encodeNetwork(n, series, o, threads))
	if err != nil {
		t.Fatal(err)
	}
	if answer := p.send(t, string(line)); answer != "ready" {
		t.Fatalf("epoch.py says %q", answer)
	}
}

// encodeNetwork returns the input of epoch.py.
func encodeNetwork(n *Network, series []Series, o Options, threads int) map[string]any {
	l, w := n.layout, n.weights
	encode := func(v []float32) string {
		b, _ := binary.Append(nil, binary.LittleEndian, v)
		return base64.StdEncoding.EncodeToString(b)
	}
	bare := func(m matrix, rows, gates, columns int) string {
		var v []float32
		for i := range rows {
			for g := range gates {
				v = append(v, m.row(i)[g*(m.cols/gates):][:columns]...)
			}
		}
		return encode(v)
	}
	var values []float32
	labels := make([]int, len(series))
	for i, one := range series {
		values, labels[i] = append(values, one.Values...), one.Class
	}
	return map[string]any{
		"kind": l.Kind, "units": l.Units, "channels": l.Channels, "classes": l.Classes, "eps": l.Eps, "gamma": l.Gamma,
		"threads": threads, "rate": o.Rate, "batch": o.Batch, "series": encode(values), "labels": labels,
		"input": bare(l.samples(w), l.Channels, l.gates(), l.Units), "recurrent": bare(w.cell, l.Units, l.gates(), l.Units),
		"output": bare(w.output, l.Units, 1, l.Spec.outputs()),
	}
}

// runEpoch is an epoch of this package, batches in the given order, in seconds of CPU
// time.
func (n *Network) runEpoch(t testing.TB, series []Series, batch int, g *weights, a *adam) float64 {
	t.Helper()
	begin := cpuSeconds(t)
	for part := range slices.Chunk(series, batch) {
		if err := n.gradient(t.Context(), part, g); err != nil {
			t.Fatal(err)
		}
		a.step(n.weights.all, g.all)
		n.refresh()
	}
	return cpuSeconds(t) - begin
}

// cpuSeconds is the CPU time of this process.
func cpuSeconds(t testing.TB) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// PyTorch, with our initial weights, learns the same: after three epochs the loss over
// the series is equal, except for the rounding of float32 and the place of Adam's
// epsilon, which is 1e-7 against gradients of about 1e-3.
func TestLearnsAsPyTorch(t *testing.T) {
	p := torch(t)
	for _, kind := range kinds {
		for _, classes := range []int{2, 5} {
			s := Spec{Kind: kind, Units: 21, Channels: 3, Classes: classes, Eps: 0.1, Gamma: 0.01, Seed: 3}
			n, series, o := newNetwork(t, s), noise(5, 80, 3, classes, 25, 25), Options{Rate: 1e-2, Batch: 32}
			p.start(t, n, series, o, 1)
			first, _, _ := n.Ask(t.Context(), series)
			g, a := n.layout.weights(), newAdam(o.Rate, len(n.weights.all))
			for range 3 {
				n.runEpoch(t, series, o.Batch, &g, a)
				p.request(t, "epoch")
			}
			got, _, err := n.Ask(t.Context(), series)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s of %d classes: loss %v, before %v", kind, classes, got, first)
			if want := p.request(t, "loss"); !(math.Abs(got-want) < 1e-4) {
				t.Errorf("%s of %d classes: loss %v, PyTorch's %v", kind, classes, got, want)
			}
		}
	}
}

// go test -bench Torch -benchtime 1x ./internal/offline/baseline An epoch of this package
// and of PyTorch, each on one thread, in turns: medians of CPU time, which other work on
// the machine changes little, and of the ratio.
func BenchmarkTorch(b *testing.B) {
	const rounds = 5
	p := torch(b)
	for _, c := range []struct {
		name                                    string
		series, steps, channels, classes, batch int
	}{{"ECG5000", 335, 140, 1, 5, 64}, {"Adiac", 261, 176, 1, 37, 32}, {"Blink", 335, 510, 4, 2, 64}} {
		for _, kind := range kinds {
			b.Run(c.name+"/"+string(kind), func(b *testing.B) {
				n := newNetwork(b, Spec{Kind: kind, Units: 130, Channels: c.channels, Classes: c.classes, Eps: 0.01, Gamma: 0.01, Seed: 1})
				series, o := noise(1, c.series, c.channels, c.classes, c.steps, c.steps), Options{Rate: 1e-3, Batch: c.batch}
				g, a := n.layout.weights(), newAdam(o.Rate, len(n.weights.all))
				p.start(b, n, series, o, 1)
				p.request(b, "epoch")
				n.runEpoch(b, series, o.Batch, &g, a)
				var times [3][]float64
				for range b.N * rounds {
					ours, theirs := n.runEpoch(b, series, o.Batch, &g, a), p.request(b, "epoch")
					for i, v := range []float64{1000 * ours, 1000 * theirs, theirs / ours} {
						times[i] = append(times[i], v)
					}
				}
				b.ReportMetric(0, "ns/op")
				for i, unit := range []string{"ms", "torch-ms", "times"} {
					slices.Sort(times[i])
					b.ReportMetric(times[i][len(times[i])/2], unit)
				}
			})
		}
	}
}
