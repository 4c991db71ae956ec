package main

import (
	"bytes"
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
	} {
		if got := plainLine(c.done, c.total, "rows", 10*time.Second); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.done, c.total, got, c.want)
		}
	}
}

// A short job leaves no trace; a long one a line now and then, and each phase
// counts its own time.
func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		a := &app{stderr: &w, progressMode: "auto"}
		p := a.progress() // a buffer is no terminal
		p.report(1, 10, "short")
		time.Sleep(time.Second)
		p.report(10, 10, "short")
		if w.Len() != 0 {
			t.Errorf("a job of one second printed %q", w.String())
		}
		for k := range int64(20) {
			p.report(k, 20, "long")
			time.Sleep(time.Second)
		}
		p.close()
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
	for _, c := range []struct {
		a    app
		want string
	}{
		{app{progressMode: "auto"}, "plain"},
		{app{progressMode: "none"}, "none"},
		{app{progressMode: "plain"}, "plain"},
		{app{progressMode: "plain", quiet: true}, "none"},
	} {
		c.a.stderr = &w
		if got := c.a.progress().mode; got != c.want {
			t.Errorf("--progress %s, quiet %v: mode %s, want %s", c.a.progressMode, c.a.quiet, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"job", "model", "nats.url", "stage.rows", "stage.max_slots", "stage.max_streams", "input.max_bytes", "log.level"}
	for got, want := range map[string]string{
		"jop": "job", "stage.row": "stage.rows", "rows": "stage.rows", "nats.ulr": "nats.url", "url": "nats.url",
		"stage.maxslots": "stage.max_slots", "logs.level": "log.level", "input.max_byte": "input.max_bytes",
	} {
		if n := nearest(got, known); n != want {
			t.Errorf("nearest to %q is %q, want %q", got, n, want)
		}
	}
}

func TestParseSpeed(t *testing.T) {
	for s, want := range map[string]float64{"max": 0, "1x": 1, "10x": 10, "2.5": 2.5} {
		if v, err := parseSpeed(s); err != nil || v != want {
			t.Errorf("speed %s is %v, %v; want %v", s, v, err, want)
		}
	}
	for _, s := range []string{"", "x", "0x", "-1x", "fast", "NaNx"} {
		if _, err := parseSpeed(s); err == nil {
			t.Errorf("speed %q is taken", s)
		}
	}
}
