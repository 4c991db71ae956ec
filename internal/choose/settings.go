package choose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Setting is a candidate.
type Setting struct {
	Policy reservoir.Policy
	Front  offline.Front
}

// String returns the flags of a setting.
func (s Setting) String() string {
	text := "--policy " + string(s.Policy.Kind)
	if s.Policy.Length > 0 {
		text += fmt.Sprintf(" --length %d", s.Policy.Length)
	}
	if s.Policy.Hop > 0 {
		text += fmt.Sprintf(" --hop %d", s.Policy.Hop)
	}
	if s.Policy.Early > 0 {
		text += fmt.Sprintf(" --early %d", s.Policy.Early)
	}
	if front := s.Front.String(); front != "" {
		text += " --front " + front
	}
	return strings.TrimSpace(text)
}

// Cost returns the network's steps for each incoming sample.
func (s Setting) Cost() float64 {
	return float64(s.Policy.States()) / float64(max(1, s.Front.Decimate))
}

// rows returns the network's steps for a sequence.
func (s Setting) rows(signal Signal) float64 {
	return float64(cmp.Or(s.Policy.Length, signal.Longest)) / float64(max(1, s.Front.Decimate))
}

// Windows of a continuous recording without a search.
const (
	windowSeconds = 2
	windowSamples = 256 // if the sampling rate is unknown
	leastSamples  = 32  // of a window
	leastWindows  = 8   // in a stream, if the windows do not overlap
)

// DefaultPolicy returns windows that overlap by half, shorter in a short recording. rate is the sampling rate in Hz; 0:
// unknown.
func DefaultPolicy(samples int, rate float64, early int) reservoir.Policy {
	p := reservoir.Policy{Kind: reservoir.Window, Length: windowSamples, Early: early}
	if rate > 0 {
		p.Length = int(math.Round(windowSeconds * rate))
	}
	p.Length = max(leastSamples, min(p.Length, samples/leastWindows)/2*2)
	p.Hop = p.Length / 2
	return p
}

// Open names what the user left open.
type Open struct {
	Policy, Front bool
	Numbers       bool // numbers are learned
}

// Limits of whole streams as sequences: their length, and their number for each class.
const (
	mostLength  = 1 << 16
	fewestWhole = 10
)

// Policies lists candidates for a policy: the base first, then other lengths, near lengths first. The base is a whole
// stream, if streams are alike, and otherwise the given policy. Endless streams are none: their errors include early
// predictions of numbers, and are not comparable with those of windows.
func Policies(s Signal, given Setting, open Open) []Setting {
	all := []Setting{given}
	if !open.Policy {
		return all
	}
	add := func(p reservoir.Policy) { all = append(all, Setting{p, given.Front}) }
	p := given.Policy
	if s.Whole && s.Shortest == s.Longest && s.Longest <= mostLength && s.Streams >= fewestWhole*len(s.Classes) && p.Early == 0 && !open.Numbers {
		add(reservoir.Policy{Kind: reservoir.Count, Length: s.Longest})
		slices.Reverse(all)
	}
	most := min(s.Run, s.Shortest) / 2
	for _, length := range []int{4 * p.Length, p.Length / 4, 2 * p.Length, 16 * p.Length, p.Length / 16} {
		length -= length % 32 // so that halves and eighths are whole
		if length >= max(leastSamples, 4*s.Memory) && length <= most {
			add(reservoir.Policy{Kind: reservoir.Window, Length: length, Hop: length / 2, Early: p.Early})
		}
	}
	return all
}

// Fronts lists candidates for a front end of a setting: the setting first.
func Fronts(s Signal, base Setting, open Open) []Setting {
	all := []Setting{base}
	if open.Front {
		for _, f := range fronts(s, base.Policy) {
			all = append(all, Setting{base.Policy, f})
		}
	}
	return all
}

// fastPeriods is the number of correlation lengths in a sequence of a fast signal, such as vibration.
const fastPeriods = 64

// fronts lists front ends for the time scales of a signal.
func fronts(s Signal, p reservoir.Policy) (list []offline.Front) {
	length := cmp.Or(p.Length, s.Longest)
	span := func(n int) offline.Span { return offline.Span{Samples: n} }
	if length < fastPeriods*s.Memory || length < 256 {
		return []offline.Front{{Smooth: span(4)}, {Normalize: span(max(2, length))}, {Center: span(max(2, length))}}
	}
	envelope := min(max(4, s.Envelope), length/fastPeriods*2)
	reduce := divisor(p, envelope/2)
	list = append(list,
		offline.Front{Center: span(16 * envelope), Envelope: span(envelope), Decimate: reduce},
		offline.Front{Center: span(4), Envelope: span(envelope), Decimate: reduce},
		offline.Front{Normalize: span(length)})
	if d := divisor(p, s.Memory/2); d > 0 {
		list = append(list, offline.Front{Decimate: d})
	}
	return list
}

// divisor returns the largest decimation up to most that the policy allows; 0: none.
func divisor(p reservoir.Policy, most int) int {
	for d := most; d >= 2; d-- {
		f := reservoir.Front{Decimate: d}
		if f.CheckParts(p) == nil && (p.Early == 0 || p.Early >= d) {
			return d
		}
	}
	return 0
}

// hops lists shorter hops of a setting.
func (s Setting) hops() (list []Setting) {
	if s.Policy.Kind != reservoir.Window {
		return nil
	}
	for _, part := range []int{8} {
		next := s
		next.Policy.Hop = s.Policy.Length / part
		front := reservoir.Front{Decimate: s.Front.Decimate}
		if s.Policy.Length%part == 0 && next.Policy.Hop >= 1 && next.Policy.Hop < s.Policy.Hop && (front.Decimate == 0 || front.CheckParts(next.Policy) == nil) {
			list = append(list, next)
		}
	}
	return slices.Clip(list)
}
