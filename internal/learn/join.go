package learn

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Example is a sequence of one class.
type Example struct {
	Entry
	Class string
	Who   string // say so: names, one a line
	// Labelled is the number of the last label that says so, in the labels' NATS stream.
	Labelled uint64
	Group    int // of neighbours: a readout is not judged by one after learning from another
}

// Joined is what sequences and labels make together.
type Joined struct {
	Examples []Example // by their streams' names, those of a stream in its order
	Report   Report
}

// Report says what became of the labels.
type Report struct {
	Read      int `json:"labels_read"`    // messages
	Current   int `json:"labels_current"` // that no later one of the same person replaced or took back
	Replaced  int `json:"labels_replaced"`
	Used      int `json:"labels_used"`      // that say what an example is
	Overruled int `json:"labels_overruled"` // by another of the same person on all of their sequences
	Disputed  int `json:"labels_disputed"`  // others say another class of all of their sequences
	Left      int `json:"labels_left_out"`  // by Without
	Pending   int `json:"labels_pending"`   // no sequence is known that they are about
	Malformed int `json:"labels_malformed"` // messages that are no label

	Sequences int            `json:"sequences"` // examples
	Disputes  int            `json:"sequences_disputed"`
	LeftOut   int            `json:"sequences_left_out"` // by Without
	Flagged   int            `json:"sequences_flagged"`  // examples of which samples were missing, or odd
	Classes   map[string]int `json:"classes"`            // examples of each
	Streams   map[string]int `json:"streams"`            // likewise
	Reasons   map[string]int `json:"pending_reasons,omitempty"`

	// The first of each; the counts are of all.
	PendingList   []PendingLabel `json:"pending,omitempty"`
	DisputeList   []Dispute      `json:"disputes,omitempty"`
	MalformedList []Malformed    `json:"malformed,omitempty"`
}

// PendingLabel is a label that no sequence is known of.
type PendingLabel struct {
	Number uint64 `json:"number"` // in the labels' NATS stream
	Stream string `json:"stream"`
	Where  string `json:"where"`
	Class  string `json:"label"`
	Who    string `json:"who"`
	Reason string `json:"reason"`
}

// Dispute is a sequence of which people say several things.
type Dispute struct {
	Stream string   `json:"stream"`
	Seq    uint64   `json:"seq"`
	Row    uint32   `json:"row"`
	Says   []string `json:"says"`
}

// what became of a label, the better the larger.
const (
	pending = iota
	leftOut
	overruled
	disputed
	used
)

// Join says of which class each stored sequence is. without may be nil.
func Join(s *Store, b *Book, p reservoir.Policy, without *Without) Joined {
	return join(s.Entries(), b, p, without, s.Through(), false)
}

// JoinSome is Join for some of a log's sequences, by the same rules: for those that
// were predicted while somebody looked. A label by seq and row from before all of
// these is about none of them.
func JoinSome(entries []Entry, b *Book, p reservoir.Policy) Joined {
	t := Through{Labels: b.Last, Passed: map[string]int64{}}
	for i := range entries {
		e := &entries[i]
		if latest, known := t.Passed[e.Stream]; !known || e.Latest > latest {
			t.Passed[e.Stream] = e.Latest
		}
	}
	sortEntries(entries)
	return join(entries, b, p, nil, t, true)
}

func join(entries []Entry, b *Book, p reservoir.Policy, without *Without, t Through, some bool) Joined {
	j := &joining{policy: p, book: b, became: map[uint64]int{}}
	r := &j.Report
	r.Classes, r.Streams = map[string]int{}, map[string]int{}
	named := b.named(entries, some)
	for i := range entries {
		j.entry(&entries[i], named[keyOf(&entries[i])], without)
	}
	r.Read, r.Replaced, r.Malformed, r.MalformedList = b.Read, b.Replaced, b.Malformed, b.Wrong
	j.account(t)
	return j.Joined
}

type joining struct {
	Joined
	policy reservoir.Policy
	book   *Book
	became map[uint64]int // of each label by its number
}

// named are the labels by seq and row, each with the sequence that it is about. some:
// these are not all.
func (b *Book) named(entries []Entry, some bool) map[key][]Label {
	same := map[at][]*Entry{} // in the order of the log
	for i := range entries {
		e := &entries[i]
		where := at{e.Stream, place{e.Seq, e.Row}}
		same[where] = append(same[where], e)
	}
	about := map[key][]Label{}
	for where, those := range same {
		a := b.of(where.stream)
		if a == nil {
			continue
		}
		for _, l := range a.places[where.place] {
			one := those[0]
			for _, e := range those {
				if e.Stored <= l.stored {
					one = e
				}
			}
			if some && one.Stored > l.stored {
				continue
			}
			about[keyOf(one)] = append(about[keyOf(one)], l)
		}
	}
	return about
}

// entry decides on a sequence.
func (j *joining) entry(e *Entry, all []Label, without *Without) {
	r := &j.Report
	if a := j.book.of(e.Stream); a != nil && e.Earliest != codec.NoTime {
		a.around(e.Earliest, e.Latest, func(l Label) { all = append(all, l) })
	}
	if len(all) == 0 {
		return
	}
	became := func(labels []Label, what int) {
		for _, l := range labels {
			j.became[l.number] = max(j.became[l.number], what)
		}
	}
	if without.entry(e) {
		became(all, leftOut)
		r.LeftOut++
		return
	}
	heard := slices.DeleteFunc(slices.Clone(all), func(l Label) bool { return without.says(l) })
	if len(heard) < len(all) {
		became(all, leftOut)
	}
	if len(heard) == 0 {
		r.LeftOut++
		return
	}
	became(heard, overruled)
	v := decide(heard)
	if v.disagree {
		became(v.says, disputed)
		if r.Disputes++; len(r.DisputeList) < listed {
			d := Dispute{Stream: e.Stream, Seq: e.Seq, Row: e.Row}
			for _, l := range v.says {
				d.Says = append(d.Says, fmt.Sprintf("%s: %s", l.who, l.class))
			}
			slices.Sort(d.Says)
			r.DisputeList = append(r.DisputeList, d)
		}
		return
	}
	became(v.says, used)
	j.example(e, v)
}

// example adds one. Those of a stream whose samples overlap, or follow one another
// without any between, are of one group where they are of one class, as pieces of a
// labelled part are in a training.
func (j *joining) example(e *Entry, v verdict) {
	r, n, class := &j.Report, len(j.Examples), v.class
	x := Example{Entry: *e, Class: class, Who: v.who()}
	for _, l := range v.says {
		x.Labelled = max(x.Labelled, l.number)
	}
	if n > 0 {
		last := &j.Examples[n-1]
		x.Group = last.Group
		apart := j.policy.Kind == reservoir.Marked || j.policy.Kind == reservoir.Gap || j.policy.Kind == reservoir.Endless && e.Carried
		if apart || last.Stream != e.Stream || last.Class != class || !follows(&last.Entry, e) {
			x.Group++
		}
	}
	j.Examples = append(j.Examples, x)
	r.Sequences++
	r.Classes[class]++
	r.Streams[e.Stream]++
	if e.Flags&^(outcome.FlagEarly|outcome.FlagWarmUp|outcome.FlagReordered|outcome.FlagIdle) != 0 {
		r.Flagged++
	}
}

// before reports whether a sample comes before another of its stream.
func (p Place) before(o Place) bool {
	switch {
	case p.In != o.In:
		return p.In < o.In
	case p.Seq != o.Seq:
		return p.Seq < o.Seq
	}
	return p.Row < o.Row
}

// account counts what became of each label.
func (j *joining) account(t Through) {
	r := &j.Report
	r.Reasons = map[string]int{}
	for _, l := range j.book.Labels() {
		r.Current++
		switch j.became[l.number] {
		case used:
			r.Used++
		case disputed:
			r.Disputed++
		case overruled:
			r.Overruled++
		case leftOut:
			r.Left++
		default:
			r.Pending++
			why := l.why(t)
			r.Reasons[why]++
			if len(r.PendingList) < listed {
				r.PendingList = append(r.PendingList, PendingLabel{l.number, l.stream, l.where(), l.class, l.who, why})
			}
		}
	}
}

// why says why a label is pending.
func (l *Label) why(t Through) string {
	passed, known := t.Passed[l.stream]
	gone := ""
	if t.Gone > 0 {
		gone = ", or its samples were removed from the log, which lacks its first messages"
	}
	switch {
	case l.number > t.Labels:
		return "it was not looked for yet"
	case !known:
		return "no sequence of this stream has ended in the log" + gone
	case l.seq != 0:
		return "no sequence of this stream ends with that seq and row (early predictions do not count)" + gone
	case passed == codec.NoTime:
		return "the samples of this stream have no times"
	case passed < l.to:
		return "no sequence of this stream lies in that time yet" + gone
	}
	return "no sequence of this stream lies in that time" + gone
}

// where is what a label is about.
func (l *Label) where() string {
	if l.seq != 0 {
		return fmt.Sprintf("seq %d row %d", l.seq, l.row)
	}
	return rfc3339(l.from) + " to " + rfc3339(l.to)
}
