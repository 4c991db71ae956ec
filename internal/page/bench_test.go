package page

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// BenchmarkPage measures the first state for a browser, and the work of each second, for a worker
// with 10,000 streams and a full history.
func BenchmarkPage(b *testing.B) {
	r := newRig(b)
	for i := range 10_000 {
		r.publishSequences(fmt.Sprintf("hall%d.line%d.pump-%d", i%5, i%50, i), 1)
	}
	r.waitForPredictions(10_000)
	now := time.Now().Add(-keptMinutes * time.Minute)
	for i := range int64(keptMinutes) {
		r.page.worker.history.minutes.addPoint(Point{Time: (now.Unix()/60 + i) * 60, Rows: float64(i), Measured: 1})
	}
	for i := range int64(keptSeconds) {
		r.page.worker.history.seconds.addPoint(Point{Time: time.Now().Unix() - keptSeconds + i, Rows: float64(i), Measured: 1})
	}
	r.page.Attach(&Job{JS: r.js})
	b.Run("machines", func(b *testing.B) {
		for b.Loop() {
			resp, err := http.Get(r.url + "/page/machines?condition=all")
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
			b.ReportMetric(float64(n), "bytes")
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			resp, err := http.Get(r.url + "/page/state")
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
			b.ReportMetric(float64(n), "bytes")
		}
	})
	b.Run("second", func(b *testing.B) {
		at := time.Now()
		for b.Loop() {
			at = at.Add(time.Second)
			r.page.sampleCounters(at)
			b.ReportMetric(float64(len(newEvent("tick", r.page.newState(at, false)))), "bytes")
		}
	})
}
