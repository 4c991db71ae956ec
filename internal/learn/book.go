package learn

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/labels"
)

// Book is what the labels of a job say now.
type Book struct {
	Read      int    // messages
	Last      uint64 // number of the last one
	Replaced  int    // labels that a later one of the same person replaced or took back
	Malformed int    // messages that are no label
	Wrong     []Malformed

	current map[subject]said
	names   map[string]string // each text once
	streams map[string]*about // of current, once they are wanted
}

// Malformed is a message that is no label.
type Malformed struct {
	Number uint64 `json:"number"` // in the labels' NATS stream
	Error  string `json:"error"`
}

// listed is how many of something are listed; all are counted.
const listed = 20

// subject is what a label is about, and by whom.
type subject struct {
	stream, who string
	from, to    int64
	place
}

// place is a prediction's. 0, 0: of a label by times.
type place struct {
	seq uint64
	row uint32
}

// said is the rest of it.
type said struct {
	class  string
	number uint64
	stored int64 // ns
}

// Label is one that counts.
type Label struct {
	subject
	said
}

// about is what is said of one stream.
type about struct {
	places    map[place][]Label
	intervals []Label // by their beginning
	longest   []int64 // the latest end of these up to each
}

// NewBook is an empty one.
func NewBook() *Book { return &Book{current: map[subject]said{}, names: map[string]string{}} }

// Add takes the next label, in the order in which they were stored.
func (b *Book) Add(l labels.Stored) error {
	b.Read++
	b.Last = max(b.Last, l.Number)
	b.streams = nil
	s := subject{b.text(l.Label.Stream), b.text(l.Label.Who), l.Label.From, l.Label.To, place{l.Label.Seq, l.Label.Row}}
	if _, known := b.current[s]; known {
		b.Replaced++
	}
	if l.Label.Class == "" {
		delete(b.current, s)
		return nil
	}
	b.current[s] = said{b.text(l.Label.Class), l.Number, l.Stored.UnixNano()}
	return nil
}

// AddMalformed takes a message that is no label.
func (b *Book) AddMalformed(number uint64, err error) {
	b.Read++
	b.Last = max(b.Last, number)
	if b.Malformed++; len(b.Wrong) < listed {
		b.Wrong = append(b.Wrong, Malformed{number, err.Error()})
	}
}

// text is a name, of which memory holds one.
func (b *Book) text(s string) string {
	if one, known := b.names[s]; known {
		return one
	}
	b.names[s] = s
	return s
}

// Labels are those that count, in the order in which they were stored.
func (b *Book) Labels() []Label {
	all := make([]Label, 0, len(b.current))
	for s, d := range b.current {
		all = append(all, Label{s, d})
	}
	slices.SortFunc(all, func(x, y Label) int { return cmp.Compare(x.number, y.number) })
	return all
}

// Names reports whether a label that counts names a stream.
func (b *Book) Names(stream string) bool { return b.of(stream) != nil }

// of is what is said of a stream; nil: nothing.
func (b *Book) of(stream string) *about {
	if b.streams == nil {
		b.streams = map[string]*about{}
		for _, l := range b.Labels() {
			a := b.streams[l.stream]
			if a == nil {
				a = &about{places: map[place][]Label{}}
				b.streams[l.stream] = a
			}
			if l.seq != 0 {
				a.places[l.place] = append(a.places[l.place], l)
			} else {
				a.intervals = append(a.intervals, l)
			}
		}
		for _, a := range b.streams {
			a.sort()
		}
	}
	return b.streams[stream]
}

func (a *about) sort() {
	slices.SortStableFunc(a.intervals, func(x, y Label) int { return cmp.Compare(x.from, y.from) })
	a.longest = make([]int64, len(a.intervals))
	for i, l := range a.intervals {
		a.longest[i] = l.to
		if i > 0 {
			a.longest[i] = max(l.to, a.longest[i-1])
		}
	}
}

// around hands on the intervals that samples of these times lie in.
func (a *about) around(earliest, latest int64, yield func(Label)) {
	i := sort.Search(len(a.intervals), func(i int) bool { return a.intervals[i].from > earliest }) - 1
	for ; i >= 0 && a.longest[i] > latest; i-- {
		if a.intervals[i].to > latest {
			yield(a.intervals[i])
		}
	}
}

// verdict is what is said of a sequence.
type verdict struct {
	class    string  // empty: nothing, or several things
	says     []Label // one of each person
	disagree bool
}

// who are the names of those who say it, one a line.
func (v verdict) who() string {
	if len(v.says) == 1 {
		return v.says[0].who
	}
	var all []string
	for _, l := range v.says {
		all = append(all, l.who)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// decide takes the labels of a sequence.
func decide(all []Label) (v verdict) {
	for _, l := range all {
		i := slices.IndexFunc(v.says, func(s Label) bool { return s.who == l.who })
		switch {
		case i < 0:
			v.says = append(v.says, l)
		case (l.seq != 0) != (v.says[i].seq != 0):
			if l.seq != 0 {
				v.says[i] = l
			}
		case l.number > v.says[i].number:
			v.says[i] = l
		}
	}
	for i, l := range v.says {
		v.disagree = v.disagree || i > 0 && l.class != v.says[0].class
	}
	if len(v.says) > 0 && !v.disagree {
		v.class = v.says[0].class
	}
	return v
}
