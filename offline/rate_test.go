package offline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const second = int64(1e9)

// timed is a recording of tones with sample times from step: the time from sample r-1 of a stream to sample r.
func timed(t *testing.T, step func(r int) int64) string {
	c := &archive.RecordingChunk{}
	d := tones(30, 0)
	for i, s := range d.Series {
		now := 1_700_000_000*second + int64(i)
		for r := range d.Len(i) {
			if r > 0 {
				now += step(r)
			}
			c.Stream, c.Seq, c.Time = append(c.Stream, s.ID), append(c.Seq, int64(r+1)), append(c.Time, now)
			c.Values = append(c.Values, s.Values[2*r:2*r+2]...)
			c.End, c.Label = append(c.End, r == d.Len(i)-1), append(c.Label, d.Classes[s.Label])
		}
	}
	path := filepath.Join(t.TempDir(), "timed.parquet")
	saveRecording(t, path, archive.RecordingInfo{Name: "timed", Channels: d.Channels}, c)
	return path
}

// A training learns the rate from the samples' times, or from its options; an evaluation flags samples at another
// rate.
func TestRateIsLearned(t *testing.T) {
	ctx := context.Background()
	even := timed(t, func(int) int64 { return second / 50 })
	train := func(path string, rate float64) (*reservoir.Model, RetrainReport) {
		m, r, err := retrainRecording(ctx, path, RetrainOptions{Spec: smallBank(2), Rate: rate}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Training.Rate != r.Sampling.Rate || m.Training.LongestInterval != r.Sampling.Longest {
			t.Errorf("the model has %g Hz, %d ns, the report %g Hz, %d ns", m.Training.Rate, m.Training.LongestInterval, r.Sampling.Rate, r.Sampling.Longest)
		}
		return m, r
	}
	m, r := train(even, 0)
	if r.Sampling.Rate != 50 || r.Sampling.Longest != second/50 {
		t.Errorf("50 Hz are learned as %g Hz, at most %d ns", r.Sampling.Rate, r.Sampling.Longest)
	}
	if _, r := train(even, 12.5); r.Sampling.Rate != 12.5 || r.Sampling.Longest != 0 {
		t.Errorf("12.5 Hz were given, the report says %g Hz, at most %d ns", r.Sampling.Rate, r.Sampling.Longest)
	}
	rng := rand.New(rand.NewPCG(2, 2))
	jitter := timed(t, func(r int) int64 { // of a clock of 10 ms, and a pause in every tenth stream or so
		if rng.IntN(300) == 0 {
			return 3600 * second
		}
		return []int64{0, 20, 40}[rng.IntN(3)] * second / 1000
	})
	if _, r := train(jitter, 0); math.Abs(r.Sampling.Rate-50) > 2 || r.Sampling.Longest != 3600*second { // 30 sequences: all count
		t.Errorf("jittered 50 Hz are learned as %g Hz, at most %d ns", r.Sampling.Rate, r.Sampling.Longest)
	}
	if m, r, err := retrainRecording(ctx, record(t, tones(30, 0), archive.Train, true), RetrainOptions{Spec: smallBank(2)}, nil); err != nil || r.Sampling.Rate != 0 || m.Training.Rate != 0 {
		t.Errorf("without times: %g Hz, %v", r.Sampling.Rate, err)
	}
	if _, _, err := Retrain(ctx, tones(30, 0), RetrainOptions{Spec: smallBank(2), Rate: 1e-9}, nil); err == nil || !strings.Contains(err.Error(), "sampling rate 1e-09 Hz, want 1e-06 to 1e+09") {
		t.Errorf("a rate that is none: %v", err)
	}

	s := pulse{}
	for i := range 100 {
		s.add(pace{period: 1e7, longest: int64(1e7) + int64(i/98)*3600*second})
	}
	if got := s.longestInterval(); got != 1e7 {
		t.Errorf("two sequences of 100 have a pause, and the longest interval is %d ns", got)
	}
	s.add(pace{period: 1e7, longest: 3600 * second})
	if got := s.longestInterval(); got != 3600*second {
		t.Errorf("three sequences of 101 have a pause, and the longest interval is %d ns", got)
	}

	lost := timed(t, func(r int) int64 { // one sample in each stream
		if r == 9 {
			return second / 25
		}
		return second / 50
	})
	for _, c := range []struct {
		path      string
		tolerance float64
		flagged   bool
	}{
		{even, 0, false}, {timed(t, func(int) int64 { return second / 100 }), 0, true}, {timed(t, func(int) int64 { return second / 25 }), 0, true},
		{timed(t, func(int) int64 { return second / 40 }), .3, false}, {lost, 0, true}, {lost, -1, false},
		{record(t, tones(30, 0), archive.Train, true), 0, false},
	} {
		ev, err := evaluateRecording(ctx, m, c.path, EvaluateOptions{RateTolerance: c.tolerance}, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: fmt.Sprint(len(ev.Predictions)), false: "0"}[c.flagged]
		if got := fmt.Sprint(ev.Flagged[outcome.FlagRate.String()]); got != want || len(ev.Predictions) == 0 {
			t.Errorf("%s, tolerance %g: %s of %d predictions are flagged, want %s", filepath.Base(c.path), c.tolerance, got, len(ev.Predictions), want)
		}
	}
}
