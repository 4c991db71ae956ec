package term

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlainLine(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 100, "rows: 0 of 100 (0 %), 10s so far"},
		{20, 100, "rows: 20 of 100 (20 %), about 40s left"},
		{100, 100, "rows: 100 of 100 (100 %), about 0s left"},
		{7, 0, "rows: 7, 10s so far"},
		{4, 100, "rows: 4 of 100 (4 %), 10s so far"}, // too early for a forecast
		{101, 100, "rows: 101 of 100 (101 %), about 0s left"},
		{math.MaxInt64 / 200, math.MaxInt64 / 100, "rows: 46116860184273879 of 92233720368547758 (50 %), about 10s left"},
	} {
		if got := plainLine(c.done, c.total, "rows", 10*time.Second); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, c.want)
		}
	}
}

func TestCoarse(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59400 * time.Millisecond: "59s", 59600 * time.Millisecond: "1m", 87 * time.Second: "1m30s", 599 * time.Second: "10m",
		12*time.Minute + 40*time.Second: "13m", time.Hour + 44*time.Minute: "1h40m", 119 * time.Minute: "2h", 25*time.Hour + 31*time.Minute: "26h",
	} {
		if got := coarse(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// The forecasts for a run of two threads, with a varying rate and a corrected total, are within
// a third of the truth from the first forecast on, and rarely grow.
func TestForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := NewProgress(&w, "plain")
		const total, rate = 800_000., 100.
		start, done := time.Now(), 0.0
		p.Report(0, total*11/10, "gigaflops")
		for second := 0; done < total; second++ {
			time.Sleep(time.Second)
			done = min(total, done+rate*(1+.25*math.Sin(float64(second)/90)))
			all := total
			if done < total/3 {
				all = total * 11 / 10
			}
			p.Report(int64(done), int64(all), "gigaflops")
		}
		duration := time.Since(start)
		lines := strings.Split(strings.TrimSpace(w.String()), "\n")
		var last time.Duration
		forecasts, grown := 0, 0
		for i, line := range lines {
			_, news, _ := strings.Cut(line, "%), ")
			at := time.Duration(i+1) * plainEvery
			forecast, ok := strings.CutPrefix(strings.TrimSuffix(news, " left"), "about ")
			if !ok {
				if at >= forecastAfter {
					t.Errorf("after %v: %s", at, line)
				}
				continue
			}
			d, err := time.ParseDuration(forecast)
			if err != nil || at < forecastAfter {
				t.Fatalf("after %v: %s: %v", at, line, err)
			}
			// Rounding is up to 10 minutes above an hour, 1 minute below.
			if truth := duration - at; d < 0 || (d-truth).Abs() > max(truth/3, 30*time.Second)+5*time.Minute {
				t.Errorf("after %v: %v left, it was %v", at, d, truth)
			}
			if forecasts++; last > 0 && d > last {
				grown++
			}
			last = d
		}
		if forecasts < len(lines)-10 || grown > forecasts/20 {
			t.Errorf("%d forecasts in %d lines, %d longer than the one before", forecasts, len(lines), grown)
		}
	})
}

// A short job prints nothing; a long job prints a line at intervals, and each phase has its own
// time.
func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := NewProgress(&w, "auto") // a buffer is no terminal
		p.Report(1, 10, "short")
		time.Sleep(time.Second)
		p.Report(10, 10, "short")
		if w.Len() != 0 {
			t.Errorf("a job of one second printed %q", w.String())
		}
		for k := range int64(20) {
			p.Report(k, 20, "long")
			time.Sleep(time.Second)
		}
		p.Close()
		want := []string{
			"long: 5 of 20 (25 %), about 15s left",
			"long: 10 of 20 (50 %), about 10s left",
			"long: 15 of 20 (75 %), about 5s left",
		}
		if got := strings.TrimSpace(w.String()); got != strings.Join(want, "\n") {
			t.Errorf("a job of 20 seconds printed\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}

func TestProgressModes(t *testing.T) {
	var w bytes.Buffer
	for asked, want := range map[string]string{"auto": "plain", "none": "none", "plain": "plain"} {
		if got := NewProgress(&w, asked).mode; got != want {
			t.Errorf("--progress %s: mode %s, want %s", asked, got, want)
		}
	}
}
