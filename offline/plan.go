package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// plan is the result of a policy on a source, known before any state is computed.
type plan struct {
	*cutter
	sequences int   // sequences that states are computed of
	work      int64 // the engine's rows for the sequences
	shortest  int64 // samples up to the point of fewest
	farthest  int64 // samples up to the point of most
	pulse     pulse // of the training sequences
	examples  []example
	ends      []int // examples up to the end of each stream, in the order of the ends
}

// example is the training example of a point. Examples come sequence by sequence, in the order of the sequences'
// ends.
type example struct {
	arrival, point, label, group, site, length int
	prefix                                     prefix
	number                                     float64
	span                                       detect.Span
}

// prefix is the part of a sequence in an example.
type prefix struct {
	sequence int // a number that every plan of one source and policy gives it
	samples  int64
	early    bool // the sequence continues
}

// makePlan cuts the source for a front end, which may be nil. also, unless nil, gets every chunk.
func makePlan(ctx context.Context, src labeledData, p reservoir.Policy, training bool, front *reservoir.Front, also func(*chunk)) (*plan, error) {
	pl := &plan{cutter: newCutter(src.sampleSource, track.Rules{Policy: p, Front: front}, training, src.channels)}
	pl.sites, pl.prefixes, pl.every, pl.share = src.sites, src.prefixes, src.every, src.share
	var done []*cutSequence
	err := src.read(ctx, func(pc *chunk) (err error) {
		if done, err = pl.cut(done[:0], pc); err != nil {
			return err
		}
		if also != nil {
			also(pc)
		}
		for _, s := range done {
			pl.sequences++
			pl.work += s.points[len(s.points)-1].rows
			for i := range s.points {
				pl.count(s, &s.points[i], pc.stream)
			}
		}
		if pc.last {
			pl.ends = append(pl.ends, len(pl.examples))
		}
		return nil
	})
	return pl, err
}

func (pl *plan) count(s *cutSequence, p *point, stream int) {
	if n := p.samples(); pl.shortest == 0 || n < pl.shortest {
		pl.shortest = n
	}
	pl.farthest = max(pl.farthest, p.samples())
	if pl.training {
		pl.examples = append(pl.examples, example{len(pl.examples), p.k, p.label, p.group, p.site, int(p.rows), prefix{s.group, p.samples(), p.early}, p.last.number, detect.Span{Run: stream, From: p.from, To: p.to}})
		pl.pulse.add(p.pace)
	}
}

// medianLength is the median length of the examples after the front end.
func (pl *plan) medianLength() int {
	lengths := make([]int, len(pl.examples))
	for i, e := range pl.examples {
		lengths[i] = e.length
	}
	return sequence.MedianLength(lengths)
}

// trainingOrder is the examples in the order of their arrival.
type trainingOrder struct {
	arrival []int     // of each point: its place in that order
	labels  []int     // of each place
	groups  []int     // of each place, of one origin
	sites   []int     // of each place: the group by the user's rule; nil: no rule
	numbers []float64 // of each place, of the target; nil: no target
	count   int       // of groups
	divided []string  // classes with only one group, which was divided
}

// blocks is the number of groups into which the only group of a class is divided.
const blocks = 5

// countGroups returns the groups of the examples of each class, and the number of examples of each group.
func countGroups(examples []example, classes int) (of []map[int]bool, size map[int]int) {
	of, size = make([]map[int]bool, classes), map[int]int{}
	for _, l := range examples {
		if of[l.label] == nil {
			of[l.label] = map[int]bool{}
		}
		of[l.label][l.group] = true
		size[l.group]++
	}
	return of, size
}

// trainingOrder groups the examples. Leave-one-out must not leave out all examples of a class, because its result
// would be meaningless. If windows or counts of a class come from only one labeled part, this part is divided into
// as many groups of neighbors as there are blocks.
func (pl *plan) trainingOrder(classes []string, numeric bool) trainingOrder {
	slices.SortFunc(pl.examples, func(a, b example) int { return cmp.Or(a.group-b.group, a.point-b.point) })
	of, size := countGroups(pl.examples, len(classes))
	n := len(pl.examples)
	s := trainingOrder{arrival: make([]int, n), labels: make([]int, n), groups: make([]int, n)}
	for c, origins := range of {
		if len(origins) == 1 && !apart(pl.Policy.Kind) && pl.sites == nil {
			s.divided = append(s.divided, classes[c])
		}
	}
	if pl.sites != nil {
		s.sites = make([]int, n)
	}
	if numeric {
		s.numbers = make([]float64, n)
	}
	group, last, site, block, taken := -1, -1, groups.None, 0, 0
	for _, l := range pl.examples {
		if l.group != last || l.site != site {
			last, site, block, taken, group = l.group, l.site, 0, 0, group+1
		}
		if b := taken * blocks / size[l.group]; b > block && slices.Contains(s.divided, classes[l.label]) {
			block, group = b, group+1
		}
		taken++
		s.arrival[l.point] = l.arrival
		s.labels[l.arrival], s.groups[l.arrival] = l.label, group
		if s.sites != nil {
			s.sites[l.arrival] = l.site
		}
		if numeric {
			s.numbers[l.arrival] = l.number
		}
	}
	s.count = group + 1
	return s
}

// capNumbers replaces the numbers above a cap, which may be nil, by the cap.
func (s *trainingOrder) capNumbers(limit *float32) {
	v := readout.Interval{Cap: limit}
	for i, x := range s.numbers {
		s.numbers[i] = v.Learned(x)
	}
}

// check explains a plan without a point; nil with a point.
func (pl *plan) check(what string) error {
	p := pl.Policy
	switch {
	case pl.points > 0:
		return nil
	case pl.mixed > 0:
		return fmt.Errorf("offline: %s: each of the %d sequences that the policy %s cuts has samples of several labels, want some of one label: take shorter sequences", what, pl.mixed, policyName(p))
	case pl.unlabeled > 0:
		return fmt.Errorf("offline: %s: none of the %d sequences that the policy %s cuts has a label", what, pl.unlabeled, policyName(p))
	case p.Kind == reservoir.Window || p.Kind == reservoir.Count:
		return fmt.Errorf("offline: %s: the policy %s cuts no sequence, the longest of %d streams has %d samples: take a length of at most that", what, policyName(p), pl.streams, pl.longest)
	case p.Kind == reservoir.Endless:
		return fmt.Errorf("offline: %s: the policy %s predicts nowhere, the longest of %d streams has %d samples: predict at least every %d", what, policyName(p), pl.streams, pl.longest, pl.longest)
	}
	return fmt.Errorf("offline: %s: no sequence of its %d streams ends: the policy %s wants end marks%s, or take window or count", what, pl.streams, p.Kind,
		map[bool]string{true: fmt.Sprintf(" or a silence of more than %v", p.Gap)}[p.Kind == reservoir.Gap])
}

// policyName is the policy with the numbers of its cuts.
func policyName(p reservoir.Policy) string {
	switch p.Kind {
	case reservoir.Window:
		return fmt.Sprintf("window of %d every %d", p.Length, p.Hop)
	case reservoir.Count:
		return fmt.Sprintf("count of %d", p.Length)
	case reservoir.Endless:
		return fmt.Sprintf("endless, early %d", p.Early)
	}
	return string(p.Kind)
}

// pulse collects the sampling intervals of training sequences, if samples have times.
type pulse struct {
	periods []float64 // of each sequence with a known period
	longest []int64   // interval of two samples in each of these sequences, ns
}

func (s *pulse) add(p pace) {
	if p.period > 0 {
		s.periods, s.longest = append(s.periods, p.period), append(s.longest, p.longest)
	}
}

// longestInterval is exceeded by at most one in usual of the sequences, ns: in a recording of several days few
// windows hold the time between two days, which is no sampling interval.
func (s *pulse) longestInterval() int64 {
	n := len(s.longest)
	if n == 0 {
		return 0
	}
	slices.Sort(s.longest)
	return s.longest[n-1-n/usual]
}

const usual = 50

// rate is the sampling rate in Hz, to six digits, by the median of the sequences' periods, so that a few sequences
// with pauses do not change the rate. 0 if no sequence has a period.
func (s *pulse) rate() float64 {
	n := len(s.periods)
	if n == 0 {
		return 0
	}
	slices.Sort(s.periods)
	low, high := s.periods[(n-1)/2], s.periods[n/2]
	hertz, _ := strconv.ParseFloat(strconv.FormatFloat(1e9/(low+(high-low)/2), 'g', 6, 64), 64) // its own text
	return hertz
}
