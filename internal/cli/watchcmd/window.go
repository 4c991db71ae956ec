package watchcmd

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	defaultLearn = 220 * time.Second // with a window of 30 s and the training, a verdict comes within five minutes
	leastLearn   = 2 * time.Second

	leastSamples = 30  // of a window
	usualSamples = 256 // of a window, if it is not longer than mostSeconds
	leastSeconds = 1   // of a window
	mostSeconds  = 30  // of a window with at least leastSamples
	hops         = 6   // predictions in a window

	leastLevel    = 0.02 // of a detector
	mostLevel     = 0.25
	tolerated     = 2       // times leastLevel: novel share of the last third if the machines are steady
	earlyShare    = 2. / 3. // of the samples of each machine
	blocks        = 10      // of a machine's samples, left out in turn: the p-values are those of known machines at another time
	blockWindows  = 2       // windows without common samples in a block, at least
	mostLearned   = 1000    // windows: more take too long, and are thinned to windows without common samples at most
	leastWindows  = 150     // of all machines: p-values of two thirds reach leastLevel
	leastSeparate = 4       // windows of a machine without common samples
)

// policyOf returns the windows for a sampling rate: 256 samples, not less than 1 s, not more than
// 30 s or 30 samples.
func policyOf(rate float64) reservoir.Policy {
	length := max(usualSamples, int(math.Round(leastSeconds*rate)))
	length = min(length, max(leastSamples, int(math.Round(mostSeconds*rate))))
	hop := max(1, length/hops)
	return reservoir.Policy{Kind: reservoir.Window, Length: hops * hop, Hop: hop}
}

// lack is what the samples lack; empty text: nothing.
type lack struct {
	text string
	more time.Duration // time until it is there, if samples continue; 0: unknown
}

// lackOf returns what samples lack for a detector.
func lackOf(s *discover.Samples, sensors []discover.Sensor, rate float64) lack {
	used := 0
	for _, c := range sensors {
		if c.Used {
			used++
		}
	}
	switch {
	case s.Count == 0:
		return lack{text: "no samples"}
	case rate == 0:
		return lack{text: "the sampling rate is unknown: too few samples"}
	case used == 0:
		return lack{text: "all channels are constant or only grow: the machines may be off"}
	}
	p := policyOf(rate)
	windows, separate, machines := 0, 0, 0
	for _, m := range s.Machines {
		n := len(m.Times)
		if n >= p.Length {
			windows += (n-p.Length)/p.Hop + 1
			machines++
		}
		separate = max(separate, n/p.Length)
	}
	if windows >= leastWindows && separate >= leastSeparate {
		return lack{}
	}
	hop := float64(p.Hop) / rate / float64(max(1, machines))
	seconds := math.Max(float64(leastWindows-windows)*hop, float64(leastSeparate-separate)*float64(p.Length)/rate)
	return lack{
		fmt.Sprintf("%d of %d windows of %s, %d of %d without common samples", windows, leastWindows, spanText(float64(p.Length)/rate), separate, leastSeparate),
		time.Duration(seconds * float64(time.Second)),
	}
}

// spanText returns a time in seconds as text: 31.5 s, or 2h30m from two minutes.
func spanText(seconds float64) string {
	if seconds < 120 {
		return fmt.Sprintf("%.3g s", seconds)
	}
	text := (time.Duration(math.Round(seconds)) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// levelOf returns the level of a detector: half of the least p-value of later healthy windows.
// P-values are those of machines outside the training, and windows of known machines are less
// novel. p is ascending.
func levelOf(p []float64) float64 {
	if len(p) == 0 {
		return leastLevel
	}
	return min(mostLevel, max(leastLevel, p[0]/2))
}

// rulesOf returns the alarm rules of a detector.
func rulesOf(p reservoir.Policy, rate, level float64) map[string]string {
	silent := max(time.Minute, time.Duration(5*float64(p.Length)/rate)*time.Second)
	return map[string]string{
		"unlike-healthy": fmt.Sprintf("novel %.3g, %d of %d", level, alarmK, alarmN),
		"dead-sensor":    "flag flat, 3 of 5",
		"silent":         fmt.Sprintf("silent %v", silent),
	}
}

// The alarm needs alarmK novel predictions of alarmN, which cover five windows without common samples.
const alarmK, alarmN = 18, 24
