package watchcmd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/discover"
)

// The first verdict needs a window after the learning and the training.
func TestPolicyOf(t *testing.T) {
	for rate, want := range map[float64]string{.1: "30 5", 1: "30 5", 5: "150 25", 10: "252 42", 100: "252 42", 256: "252 42", 1000: "996 166"} {
		p := policyOf(rate)
		if err := p.Validate(); err != nil {
			t.Errorf("%v Hz: %v", rate, err)
		}
		if got := fmt.Sprint(p.Length, " ", p.Hop); got != want {
			t.Errorf("%v Hz: window and hop %s, want %s", rate, got, want)
		}
		if _, err := alarm.ParseRules(rulesOf(p, rate, levelOf(nil))); err != nil {
			t.Error(err)
		}
	}
}

func TestLevelOf(t *testing.T) {
	for want, p := range map[float64][]float64{.02: {.005, .5}, .05: {.1, .5}, .25: {.9}} {
		if got := levelOf(p); got != want {
			t.Errorf("%v: level %v, want %v", p, got, want)
		}
	}
}

func TestLackOf(t *testing.T) {
	fill := func(machines, n int, value func(i int) float32) *discover.Samples {
		s := discover.NewSamples([]string{"x"})
		for k := range machines {
			for i := range n {
				s.Add(fmt.Sprint(k), []float32{value(i)}, nil, int64(i)*1e9)
			}
		}
		return s
	}
	wave := func(int) float32 { return rand.Float32() }
	for _, c := range []struct {
		s    *discover.Samples
		want string
	}{
		{discover.NewSamples([]string{"x"}), "no samples"},
		{fill(1, 3, wave), "sampling rate is unknown"},
		{fill(1, 300, func(int) float32 { return 1 }), "all channels are constant"},
		{fill(1, 300, func(i int) float32 { return float32(i) }), "only grow"},
		{fill(1, 300, wave), "55 of 150 windows of 30 s"},
		{fill(20, 90, wave), "3 of 4 without common samples"},
		{fill(10, 120, wave), ""},
	} {
		l := lackOf(c.s, c.s.Grade(), c.s.Rate())
		if !strings.Contains(l.text, c.want) || (c.want == "") != (l.text == "") {
			t.Errorf("got %q, want %q", l.text, c.want)
		}
		if strings.Contains(c.want, "windows") && l.more <= 0 {
			t.Errorf("%s: no remaining time", l.text)
		}
	}
}

func TestParsePlace(t *testing.T) {
	for url, want := range map[string]place{
		"mqtt://host":                {scheme: "mqtt", server: "tcp://host:1883", filter: "#"},
		"mqtt://u:p@host:99/plant/#": {scheme: "mqtt", server: "tcp://host:99", filter: "plant/#", user: "u", password: "p"},
		"mqtts://host/+/x":           {scheme: "mqtt", server: "ssl://host:8883", filter: "+/x"},
		"nats://host/plant.>":        {scheme: "nats", server: "nats://host:4222", filter: "plant.>"},
		"window_test.go":             {scheme: "tables", path: "window_test.go"},
	} {
		if got, err := parsePlace(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", url, got, err, want)
		}
	}
	for _, url := range []string{"nowhere/*.csv", "http://host/x", "nats://host:4222/plant", "mqtt://"} {
		if p, err := parsePlace(url); err == nil {
			t.Errorf("%s is %+v", url, p)
		}
	}
	for want, p := range map[string]place{
		"watch-host-plant": {scheme: "mqtt", server: "tcp://host:1883", filter: "plant/#"},
		"watch-valve1":     {scheme: "tables", path: "skab/valve1/*.csv.gz"},
	} {
		if got := p.folder(); got != want {
			t.Errorf("%v: folder %s, want %s", p, got, want)
		}
	}
}
