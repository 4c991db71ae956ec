package plants

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// confusion counts samples by label and detection.
type confusion struct{ tp, fp, fn, tn int }

func (c *confusion) countSample(fault, detected bool) {
	switch {
	case fault && detected:
		c.tp++
	case detected:
		c.fp++
	case fault:
		c.fn++
	default:
		c.tn++
	}
}

// text returns F1, the share of false detections and the share of missed faults.
func (c *confusion) text() string {
	return fmt.Sprintf("%.3f, %.1f %%, %.1f %%", float64(c.tp)/(float64(c.tp)+float64(c.fp+c.fn)/2), 100*float64(c.fp)/float64(c.fp+c.tn), 100*float64(c.fn)/float64(c.fn+c.tp))
}

// countDetections compares each prediction with the label of its last sample, as the leaderboard of SKAB does. Samples
// without a label do not count; with healed false also samples after the last fault of their stream do not.
func (r *rig) countDetections(path string, ev *offline.Evaluation, c *confusion, healed bool) {
	labels := map[string][]string{}
	r.eachStretch(path, func(_ []string, chunk archive.RecordingChunk) {
		labels[chunk.Stream[0]] = append(labels[chunk.Stream[0]], chunk.Label...)
	})
	last := map[string]int64{}
	for id, all := range labels {
		for i, label := range all {
			if label != "" && label != "normal" {
				last[id] = int64(i + 1)
			}
		}
	}
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if label := labels[p.ID][p.Position-1]; label != "" && (healed || p.Position <= last[p.ID]) {
			c.countSample(label != "normal", p.Class == 1)
		}
	}
}

// window is a labeled anomaly of NAB.
type window struct{ from, to time.Time }

// scoreNAB returns the score of NAB's standard profile: 100 is perfect, 0 is no detection.
//
// The first detection in a window counts f(-(samples to the end of the window, both ends included) / width), relative
// to its largest value f(-1); a missed window counts -1; a detection outside counts .11 f(samples after the last window
// / (width - 1)), or -.11 before all windows; f(x) = 2 / (1 + exp(5 x)) - 1, and -1 if x is above 3. Detections before
// sample `probation` do not count. The sum is scaled between a detector without detections and a perfect detector.
// Lavin and Ahmad 2015, "Evaluating Real-Time Anomaly Detection Algorithms", and the sweeper of
// github.com/numenta/NAB.
func scoreNAB(times []time.Time, detections []int, windows []window, probation int) (points float64) {
	f := func(x float64) float64 {
		if x > 3 {
			return -1
		}
		return 2/(1+math.Exp(5*x)) - 1
	}
	type span struct{ from, to int }
	var spans []span
	for _, w := range windows {
		from := slices.IndexFunc(times, func(at time.Time) bool { return !at.Before(w.from) })
		to := from
		for to+1 < len(times) && !times[to+1].After(w.to) {
			to++
		}
		spans = append(spans, span{from, to})
	}
	found := make([]bool, len(spans))
	for _, i := range detections {
		if i < probation {
			continue
		}
		inside, before := -1, -1
		for k, s := range spans {
			if i >= s.from && i <= s.to {
				inside = k
			}
			if s.to < i {
				before = k
			}
		}
		switch {
		case inside >= 0 && !found[inside]:
			s := spans[inside]
			points += f(-float64(s.to-i+1)/float64(s.to-s.from+1)) / f(-1)
			found[inside] = true
		case inside >= 0:
		case before >= 0:
			s := spans[before]
			points += .11 * f(float64(i-s.to)/float64(s.to-s.from))
		default:
			points -= .11
		}
	}
	for _, yes := range found {
		if !yes {
			points--
		}
	}
	return points
}

// scaleNAB scales points between no detection (0) and perfect detection (100) of some windows.
func scaleNAB(points float64, windows int) float64 {
	return 100 * (points + float64(windows)) / float64(2*windows)
}

// TestScoreNAB compares with figures computed by hand from the formula.
func TestScoreNAB(t *testing.T) {
	times := make([]time.Time, 100)
	for i := range times {
		times[i] = time.Unix(int64(60*i), 0)
	}
	windows := []window{{times[20], times[29]}, {times[60], times[69]}}
	for _, c := range []struct {
		detections []int
		want       float64
	}{
		{nil, 0},
		{[]int{20, 60}, 100},                       // at the begin of both windows
		{[]int{20, 25, 60}, 100},                   // later detections in a window do not count
		{[]int{5, 20, 60}, 100},                    // probation
		{[]int{15, 20, 60}, 100 - 100*.11/4},       // before all windows
		{[]int{20, 58, 60}, 100 - 100*.11/4},       // far after the first window: 29 > 3 * 9
		{[]int{20, 30, 60}, 100 - 25*.11*.270847},  // a ninth of the width after the window
		{[]int{20}, 50},                            // a missed window
		{[]int{29, 60}, 75 + 25*0.24491866/.98661}, // the last sample of a window: f(-.1)
	} {
		got := scaleNAB(scoreNAB(times, c.detections, windows, 10), 2)
		if math.Abs(got-c.want) > .01 {
			t.Errorf("%v: %.3f, want %.3f", c.detections, got, c.want)
		}
	}
}
