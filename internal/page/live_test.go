package page

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/internal/testing/browser"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// plantName is the name of machine i of a simulated plant.
func plantName(i int) string { return fmt.Sprintf("hall%d.line%d.pump-%d", i%5, i%50, i) }

// publishPlant publishes a sample of each of n machines per second until the test ends: the value
// of valueOf(machine, second), NaN for no sample. Each message has the samples of 100 machines.
func (r *rig) publishPlant(n int, valueOf func(i, second int) float32) {
	const share = 100
	encoder, err := codec.NewInputEncoder([]string{"x", "y"}, codec.InputOptions{Keys: true})
	if err != nil {
		r.Fatal(err)
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(func() { cancel(); <-ended })
	publish := func(first, second int) error {
		p := pipelinetest.Packet{Key: fmt.Sprint("line", first/share), Seq: uint64(second + 1)}
		for i := first; i < first+share; i++ {
			if v := valueOf(i, second); v == v {
				p.Batch.Keys, p.Batch.Key = append(p.Batch.Keys, plantName(i)), append(p.Batch.Key, int32(p.Batch.Rows))
				p.Batch.Rows, p.Batch.X = p.Batch.Rows+1, append(p.Batch.X, v, -v)
			}
		}
		data, err := encoder.Encode(&p.Batch)
		if err == nil {
			_, err = r.js.PublishMsgAsync(&nats.Msg{Subject: "sensors." + p.Key, Header: p.Headers(), Data: bytes.Clone(data)})
		}
		return err
	}
	go func() {
		defer close(ended)
		begin := time.Now()
		for k := 0; ctx.Err() == nil; k++ {
			first, second := k*share%n, k*share/n
			time.Sleep(time.Until(begin.Add(time.Second * time.Duration(k) * share / time.Duration(n))))
			if err := publish(first, second); err != nil && ctx.Err() == nil {
				r.Errorf("publishing: %v", err)
				return
			}
		}
	}()
}

// BenchmarkBrowserMachines measures the page of a running stage with 10,000 machines that each have
// a prediction per second: the time from opening the page to the rows and counts, the CPU time for
// the page in the program and in the browser's tab, and the time from a fault to its row.
func BenchmarkBrowserMachines(b *testing.B) {
	const n, faulty = 10_000, 4321
	const healthy, worn, broken = 3, -3, 50 // values
	for b.Loop() {                          // measured once, below
	}
	tab := browser.Start(b)
	r := newRigOf(b, func(m *reservoir.Model) {
		m.Policy = reservoir.Policy{Kind: reservoir.Window, Length: 2, Hop: 1}
		l := m.Readouts[0]
		l.Classes = []string{"healthy", "cavitation", "worn"}
		l.Intercept = []float32{l.Intercept[0], l.Intercept[1], l.Intercept[2] + .45} // a border between the two values
		m.Training.Inputs = slices.Repeat([]reservoir.InputRange{{Values: 1000, Min: -4, Max: 4, LongestRun: 1000}}, 2)
	})
	r.page.Attach(&Job{JS: r.js, Report: r.newReport()})
	var fault atomic.Bool
	noise := rand.New(rand.NewPCG(1, 2))
	r.publishPlant(n, func(i, second int) float32 {
		v := noise.Float32() / 2
		switch {
		case i%100 == 1 && second > 5 || i == faulty && fault.Load():
			return worn + v
		case i%200 == 2 && second > 5:
			return broken
		case i%2000 == 3 && second > 50:
			return float32(math.NaN())
		}
		return healthy + v
	})
	r.waitForPredictions(45 * n)
	measure := func(over time.Duration) (program, tabs float64) { // shares of a core, in percent
		spent := func() (program, tabs time.Duration) {
			program, err := load.CPUTime()
			if err != nil {
				b.Fatal(err)
			}
			return program, tab.CPUTime()
		}
		began := time.Now()
		program0, tab0 := spent()
		time.Sleep(over)
		program1, tab1 := spent()
		all := float64(time.Since(began)) / 100
		return float64(program1-program0) / all, float64(tab1-tab0) / all
	}
	unviewed, _ := measure(20 * time.Second)
	open := func() (shown float64) {
		tab.Open(r.url + "/")
		tab.AwaitTrue("rows", `document.querySelectorAll("#rows-of-list tr").length === 50 && document.querySelector("[data-condition=all] b").textContent === "10,000"`)
		tab.Eval(`performance.now()`, &shown) // since the begin of the navigation
		return shown
	}
	b.ReportMetric(open(), "ms/first-screen") // the stored predictions are read first
	next := []float64{open(), open(), open(), open(), open()}
	slices.Sort(next)
	b.ReportMetric(next[2], "ms/next-screen") // median
	time.Sleep(5 * time.Second)
	viewed, inTab := measure(30 * time.Second)
	b.ReportMetric(viewed-unviewed, "%core/page")
	b.ReportMetric(inTab, "%core/tab")
	fault.Store(true)
	began := time.Now()
	tab.AwaitTrue("fault on the first screen", `[...document.querySelectorAll("#rows-of-list tr")].some(r => r.innerText.includes("pump-4321") && r.innerText.includes("worn"))`)
	b.ReportMetric(time.Since(began).Seconds()*1000, "ms/fault")
	savePictures(tab, "live")
}
