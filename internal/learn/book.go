package learn

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/labels"
)

// Book has the current labels of a job.
type Book struct {
	Read      int    // number of messages
	Last      uint64 // number of the last message
	Replaced  int    // labels that a later label of the same person replaced or withdrew
	Malformed int    // messages that are no labels
	Wrong     []Malformed

	current map[labelKey]labelValue
	names   map[string]string        // interned strings
	streams map[string]*streamLabels // of current, by stream; nil = not computed
}

// Malformed is a message that is no label.
type Malformed struct {
	Number uint64 `json:"number"` // in the labels' NATS stream
	Error  string `json:"error"`
}

// maxListed is the maximum length of a report's lists; the counts are complete.
const maxListed = 20

// labelKey identifies a label: its target and its author.
type labelKey struct {
	stream, who string
	from, to    int64
	predictionID
}

// predictionID identifies a prediction in its stream. 0, 0: a label by times.
type predictionID struct {
	seq uint64
	row uint32
}

// labelValue is the content of a label.
type labelValue struct {
	class  string
	number uint64
	stored int64 // ns
}

// Label is a current label.
type Label struct {
	labelKey
	labelValue
}

// streamLabels are the labels of a stream.
type streamLabels struct {
	places     map[predictionID][]Label
	intervals  []Label // by start
	latestEnds []int64 // the latest end of the intervals up to each index
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{current: map[labelKey]labelValue{}, names: map[string]string{}} }

// AddLabel adds the next label; labels come in storage order.
func (b *Book) AddLabel(l labels.Stored) error {
	b.Read++
	b.Last = max(b.Last, l.Number)
	b.streams = nil
	s := labelKey{b.intern(l.Label.Stream), b.intern(l.Label.Who), l.Label.From, l.Label.To, predictionID{l.Label.Seq, l.Label.Row}}
	if _, known := b.current[s]; known {
		b.Replaced++
	}
	if l.Label.Class == "" {
		delete(b.current, s)
		return nil
	}
	b.current[s] = labelValue{b.intern(l.Label.Class), l.Number, l.Stored.UnixNano()}
	return nil
}

// AddMalformed counts a message that is no label.
func (b *Book) AddMalformed(number uint64, err error) {
	b.Read++
	b.Last = max(b.Last, number)
	if b.Malformed++; len(b.Wrong) < maxListed {
		b.Wrong = append(b.Wrong, Malformed{number, err.Error()})
	}
}

// intern returns the only copy of a string in memory.
func (b *Book) intern(s string) string {
	if interned, known := b.names[s]; known {
		return interned
	}
	b.names[s] = s
	return s
}

// Labels returns the current labels, in storage order.
func (b *Book) Labels() []Label {
	all := make([]Label, 0, len(b.current))
	for s, d := range b.current {
		all = append(all, Label{s, d})
	}
	slices.SortFunc(all, func(x, y Label) int { return cmp.Compare(x.number, y.number) })
	return all
}

// HasStream reports whether a current label names a stream.
func (b *Book) HasStream(stream string) bool { return b.labelsOf(stream) != nil }

// labelsOf returns the labels of a stream; nil: none.
func (b *Book) labelsOf(stream string) *streamLabels {
	if b.streams == nil {
		b.streams = map[string]*streamLabels{}
		for _, l := range b.Labels() {
			a := b.streams[l.stream]
			if a == nil {
				a = &streamLabels{places: map[predictionID][]Label{}}
				b.streams[l.stream] = a
			}
			if l.seq != 0 {
				a.places[l.predictionID] = append(a.places[l.predictionID], l)
			} else {
				a.intervals = append(a.intervals, l)
			}
		}
		for _, a := range b.streams {
			a.sortIntervals()
		}
	}
	return b.streams[stream]
}

func (a *streamLabels) sortIntervals() {
	slices.SortStableFunc(a.intervals, func(x, y Label) int { return cmp.Compare(x.from, y.from) })
	a.latestEnds = make([]int64, len(a.intervals))
	for i, l := range a.intervals {
		a.latestEnds[i] = l.to
		if i > 0 {
			a.latestEnds[i] = max(l.to, a.latestEnds[i-1])
		}
	}
}

// eachCovering calls yield for the intervals that cover samples from earliest to latest.
func (a *streamLabels) eachCovering(earliest, latest int64, yield func(Label)) {
	i := sort.Search(len(a.intervals), func(i int) bool { return a.intervals[i].from > earliest }) - 1
	for ; i >= 0 && a.latestEnds[i] > latest; i-- {
		if a.intervals[i].to > latest {
			yield(a.intervals[i])
		}
	}
}

// verdict is the result of a sequence's labels.
type verdict struct {
	class    string  // empty: no class, or several classes
	labels   []Label // one for each person
	disagree bool
}

// names returns the names of the labels' authors, one per line.
func (v verdict) names() string {
	if len(v.labels) == 1 {
		return v.labels[0].who
	}
	var all []string
	for _, l := range v.labels {
		all = append(all, l.who)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// decideClass combines the labels of a sequence.
func decideClass(all []Label) (v verdict) {
	for _, l := range all {
		i := slices.IndexFunc(v.labels, func(s Label) bool { return s.who == l.who })
		switch {
		case i < 0:
			v.labels = append(v.labels, l)
		case (l.seq != 0) != (v.labels[i].seq != 0):
			if l.seq != 0 {
				v.labels[i] = l
			}
		case l.number > v.labels[i].number:
			v.labels[i] = l
		}
	}
	for i, l := range v.labels {
		v.disagree = v.disagree || i > 0 && l.class != v.labels[0].class
	}
	if len(v.labels) > 0 && !v.disagree {
		v.class = v.labels[0].class
	}
	return v
}
