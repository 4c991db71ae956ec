package offline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// sampleSource is streams of labeled samples as a plant sends them, for training and evaluation. Repeated readings
// give the same samples.
type sampleSource interface {
	// read hands out the chunks, with the chunks of a stream in order. The reader reuses a chunk when yield returns;
	// an error of yield ends the reading.
	read(ctx context.Context, yield func(*chunk) error) error
	// word is the word for a stream of the source.
	word() string
	// policy is how the stage cuts the source's streams under p.
	policy(p reservoir.Policy) reservoir.Policy
}

// chunk is the next samples of a stream.
type chunk struct {
	stream int       // its number, from 0 in the order of appearance
	id     string    // its name
	values []float32 // samples x channels, row-major; NaN if missing
	labels []int     // class of each sample, -1 if unknown
	times  []int64   // of each sample, ns, NoTime if unknown; nil: no sample has a time
	ends   []bool    // whether a sequence ends with the sample; nil: nowhere
	last   bool      // the stream ends here

	numbers []float64 // of each sample: its value in the column of the target, NaN if unknown; nil: labels are used

	seqs   []int64        // of each sample: its number in the stream; nil: the data have none
	part   archive.Split  // of a data set or of --parts; empty: no division
	groups []string       // of each sample: its value in the column of groups; nil: no column is asked for
	flags  []outcome.Flag // of each sample: events before the sample; nil: unknown
	told   []int          // class of the sequence whose prediction comes with each sample, -1 if unknown; nil: of none
	counts bool           // samples without a label count as input: labels are labels of predictions
	silent bool           // silence, and no mark, ended the sequence with the last sample
}

// seriesSource is series of a data set: each is a stream of its own, with one sequence under a policy of end marks or
// silence.
type seriesSource struct {
	d      *archive.Dataset
	series []int
	class  []int // of each label of d; nil: the labels are the classes
}

func (t *seriesSource) word() string { return "series" }

// policy replaces silence by the series' end, because series have no times.
func (t *seriesSource) policy(p reservoir.Policy) reservoir.Policy {
	if p.Kind == reservoir.Gap {
		return reservoir.Policy{Kind: reservoir.Marked, Early: p.Early}
	}
	return p
}

func (t *seriesSource) read(ctx context.Context, yield func(*chunk) error) error {
	var labels []int
	var ends []bool
	var groups []string
	var numbers []float64
	for k, i := range t.series {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s, n := &t.d.Series[i], t.d.Len(i)
		label := s.Label
		if label >= 0 && t.class != nil {
			label = t.class[label]
		}
		labels, ends, groups = labels[:0], ends[:0], groups[:0]
		if t.d.Target != "" {
			numbers = slices.Repeat([]float64{s.Number}, n)
		}
		for r := range n {
			labels, ends, groups = append(labels, label), append(ends, r == n-1), append(groups, s.Group)
		}
		if err := yield(&chunk{stream: k, id: s.ID, values: s.Values, labels: labels, ends: ends, part: s.Split, groups: groups, numbers: numbers, last: true}); err != nil {
			return err
		}
	}
	return nil
}

// timeOf is the time of a sample.
func timeOf(times []int64, i int) int64 {
	if times == nil {
		return archive.NoTime
	}
	return times[i]
}

// labeledData is the data for training or evaluating a model.
type labeledData struct {
	sampleSource
	what        string // for messages: data set "x"
	name        string
	fingerprint func() string
	channels    []string
	classes     []string
	bytes       int64         // in memory
	target      string        // target of the samples' numbers; empty: samples have classes
	sites       *groups.Table // of the groups that are asked for; nil: none
	prefixes    bool          // early points are learned from, too
	every       int           // samples from one learned point of a stream to the next; 0: all points are learned from
	share       float64       // of the points of each class that are learned from; 0: all
}

// inputs follow the labeled samples of a source, stream by stream, for the input statistics of a model.
type inputs struct {
	statistics *reservoir.InputStatistics
	channels   int
	streams    map[int]*reservoir.SeriesStatistics // series that have not ended
}

func newInputs(channels int) *inputs {
	return &inputs{reservoir.NewInputStatistics(channels), channels, map[int]*reservoir.SeriesStatistics{}}
}

// add takes the labeled samples of a chunk.
func (in *inputs) add(p *chunk) {
	s := in.streams[p.stream]
	if s == nil {
		s = in.statistics.Series()
		in.streams[p.stream] = s
	}
	for r, label := range p.labels {
		if label < 0 && !p.counts {
			s.Skip()
			continue
		}
		s.Add(p.values[r*in.channels : (r+1)*in.channels])
	}
	if p.last {
		delete(in.streams, p.stream)
	}
}

// merges are classes that count as another class: the name of the other class, by the name of each.
type merges map[string]string

// rename replaces the names of merged classes. The result may have a name several times.
func (m merges) rename(classes []string) []string {
	renamed := slices.Clone(classes)
	for i, name := range renamed {
		renamed[i] = cmp.Or(m[name], name)
	}
	return renamed
}

// join returns the classes after merging, in the order of their first names, and the index among
// these for each class. what names the data. Each merged class must exist.
func (m merges) join(classes []string, what string) (joined []string, of []int, err error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(classes, name) {
			return nil, nil, fmt.Errorf("offline: %s has no class %q, which is to count as %q; it has %s", what, name, m[name], names.Cut(fmt.Sprintf("%q", classes), 200))
		}
	}
	for _, name := range m.rename(classes) {
		at := slices.Index(joined, name)
		if at < 0 {
			at, joined = len(joined), append(joined, name)
		}
		of = append(of, at)
	}
	return joined, of, nil
}

// mergeClasses merges the classes of the data.
func (src *labeledData) mergeClasses(m merges) error {
	if len(m) == 0 {
		return nil
	}
	joined, of, err := m.join(src.classes, src.what)
	if err != nil {
		return err
	}
	src.classes = joined
	switch t := src.sampleSource.(type) {
	case *seriesSource:
		t.class = of
	case *recordingSource:
		t.class = maps.Clone(t.class)
		for label, i := range t.class {
			if i >= 0 {
				t.class[label] = of[i]
			}
		}
	}
	return nil
}
