package demo

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// The comparison must see a single bit, a wrong class, and a missing prediction.
func TestDemoComparison(t *testing.T) {
	want := []offline.Prediction{
		{ID: "test-0", Answer: outcome.Answer{Class: 1, Scores: []float32{0.5}}},
		{ID: "test-1", Answer: outcome.Answer{Class: 0, Scores: []float32{-0.5}, Probability: 0.75, Flags: outcome.FlagFlat}},
	}
	live := func() []codec.Prediction {
		return []codec.Prediction{{Answer: outcome.Answer{Class: 1, Scores: []float32{0.5}}}, {Answer: outcome.Answer{Class: 0, Scores: []float32{-0.5}, Probability: 0.75, Flags: outcome.FlagFlat}}}
	}
	if d := compare(live(), want); len(d) != 0 {
		t.Fatalf("equal predictions differ: %v", d)
	}
	for name, change := range map[string]func(p []codec.Prediction){
		"bit":     func(p []codec.Prediction) { p[1].Scores[0] = math.Nextafter32(p[1].Scores[0], 1) },
		"class":   func(p []codec.Prediction) { p[1].Class = 1 },
		"missing": func(p []codec.Prediction) { p[1] = codec.Prediction{Answer: outcome.Answer{Class: -1}} },
		"flag":    func(p []codec.Prediction) { p[1].Flags = 0 },
		"chance":  func(p []codec.Prediction) { p[1].Probability = math.Nextafter32(p[1].Probability, 1) },
		"width":   func(p []codec.Prediction) { p[1].Scores = append(p[1].Scores, 0) },
	} {
		p := live()
		change(p)
		if d := compare(p, want); len(d) != 1 || !strings.HasPrefix(d[0], "test-1") {
			t.Errorf("%s: differences %v, want one of test-1", name, d)
		}
	}
	var a cli.App
	var out, errOut bytes.Buffer
	a.Stdout, a.Stderr = &out, &errOut
	p := live()
	p[0].Scores[0] = 7
	ev := &offline.Evaluation{Classes: []string{"a", "b"}, Predictions: want}
	ev.Early = &offline.EarlyCount{Decided: &offline.EarlyReport{Sequences: 2}}
	ev.Early.Decided.Decided = .5
	if code := a.Report(demoResult(&a, &liveResult{predictions: p, seconds: 1}, ev, time.Second)); code != cli.ExitIntegrity {
		t.Errorf("exit code %d of a demo with a difference, want %d", code, cli.ExitIntegrity)
	}
	if !strings.Contains(errOut.String(), "DIFFER") || !strings.Contains(out.String(), "1 of 2 predictions equal") || !strings.Contains(out.String(), "decided early: 50.0 % of 2 sequences") {
		t.Errorf("a difference is not told loudly:\n%s%s", out.String(), errOut.String())
	}
}
