package learn

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Example is a sequence with a class.
type Example struct {
	Entry
	Class string
	Who   string // names of the label authors, one per line
	// Labeled is the number of the last supporting label, in the labels' NATS stream.
	Labeled uint64
	Group   int // of neighboring sequences: a group is never split between learning and judging
}

// JoinResult is the result of joining sequences and labels.
type JoinResult struct {
	Examples []Example // by stream name, then in stream order
	Report   Report
}

// Report counts the labels by result.
type Report struct {
	Read      int `json:"labels_read"`    // messages
	Current   int `json:"labels_current"` // not replaced or withdrawn by a later label of the same person
	Replaced  int `json:"labels_replaced"`
	Used      int `json:"labels_used"`      // support an example
	Overruled int `json:"labels_overruled"` // by another label of the same person for all their sequences
	Disputed  int `json:"labels_disputed"`  // other persons chose another class for all their sequences
	Left      int `json:"labels_left_out"`  // by Exclusion
	Pending   int `json:"labels_pending"`   // without a known sequence
	Malformed int `json:"labels_malformed"` // messages that are no labels

	Sequences int            `json:"sequences"` // examples
	Disputes  int            `json:"sequences_disputed"`
	LeftOut   int            `json:"sequences_left_out"` // by Exclusion
	Flagged   int            `json:"sequences_flagged"`  // examples with missing or unusual samples
	Classes   map[string]int `json:"classes"`            // number of examples
	Streams   map[string]int `json:"streams"`            // number of examples
	Reasons   map[string]int `json:"pending_reasons,omitempty"`

	// The first entries; the counts are complete.
	PendingList   []PendingLabel `json:"pending,omitempty"`
	DisputeList   []Dispute      `json:"disputes,omitempty"`
	MalformedList []Malformed    `json:"malformed,omitempty"`
}

// PendingLabel is a label without a known sequence.
type PendingLabel struct {
	Number uint64 `json:"number"` // in the labels' NATS stream
	Stream string `json:"stream"`
	Where  string `json:"where"`
	Class  string `json:"label"`
	Who    string `json:"who"`
	Reason string `json:"reason"`
}

// Dispute is a sequence with contradicting labels.
type Dispute struct {
	Stream string   `json:"stream"`
	Seq    uint64   `json:"seq"`
	Row    uint32   `json:"row"`
	Says   []string `json:"says"`
}

// results of a label, from worst to best
const (
	pending = iota
	leftOut
	overruled
	disputed
	used
)

// JoinLabels determines the class of each stored sequence. without may be nil.
func JoinLabels(s *Store, b *Book, p reservoir.Policy, without *Exclusion) JoinResult {
	return joinEntries(s.Entries(), b, p, without, s.Progress(), false)
}

// JoinSome is JoinLabels for a part of a log's sequences, predicted during an observation, by the
// same rules. A label by seq and row from before all these sequences names none of them.
func JoinSome(entries []Entry, b *Book, p reservoir.Policy) JoinResult {
	t := Progress{Labels: b.Last, Passed: map[string]int64{}}
	for i := range entries {
		e := &entries[i]
		if latest, known := t.Passed[e.Stream]; !known || e.Latest > latest {
			t.Passed[e.Stream] = e.Latest
		}
	}
	sortEntries(entries)
	return joinEntries(entries, b, p, nil, t, true)
}

func joinEntries(entries []Entry, b *Book, p reservoir.Policy, without *Exclusion, t Progress, some bool) JoinResult {
	j := &joiner{policy: p, book: b, results: map[uint64]int{}}
	r := &j.Report
	r.Classes, r.Streams = map[string]int{}, map[string]int{}
	named := b.assignLabels(entries, some)
	for i := range entries {
		j.joinEntry(&entries[i], named[keyOf(&entries[i])], without)
	}
	r.Read, r.Replaced, r.Malformed, r.MalformedList = b.Read, b.Replaced, b.Malformed, b.Wrong
	j.countLabels(t)
	return j.JoinResult
}

type joiner struct {
	JoinResult
	policy  reservoir.Policy
	book    *Book
	results map[uint64]int // result of each label, by number
}

// assignLabels assigns each label by seq and row to its sequence. some: entries is not complete.
func (b *Book) assignLabels(entries []Entry, some bool) map[key][]Label {
	byID := map[streamPrediction][]*Entry{} // in log order
	for i := range entries {
		e := &entries[i]
		id := streamPrediction{e.Stream, predictionID{e.Seq, e.Row}}
		byID[id] = append(byID[id], e)
	}
	assigned := map[key][]Label{}
	for id, candidates := range byID {
		a := b.labelsOf(id.stream)
		if a == nil {
			continue
		}
		for _, l := range a.places[id.predictionID] {
			target := candidates[0]
			for _, e := range candidates {
				if e.Stored <= l.stored {
					target = e
				}
			}
			if some && target.Stored > l.stored {
				continue
			}
			assigned[keyOf(target)] = append(assigned[keyOf(target)], l)
		}
	}
	return assigned
}

// joinEntry decides the class of a sequence.
func (j *joiner) joinEntry(e *Entry, all []Label, without *Exclusion) {
	r := &j.Report
	if a := j.book.labelsOf(e.Stream); a != nil && e.Earliest != codec.NoTime {
		a.eachCovering(e.Earliest, e.Latest, func(l Label) { all = append(all, l) })
	}
	if len(all) == 0 {
		return
	}
	setResult := func(labels []Label, result int) {
		for _, l := range labels {
			j.results[l.number] = max(j.results[l.number], result)
		}
	}
	if without.excludesEntry(e) {
		setResult(all, leftOut)
		r.LeftOut++
		return
	}
	accepted := slices.DeleteFunc(slices.Clone(all), func(l Label) bool { return without.excludesLabel(l) })
	if len(accepted) < len(all) {
		setResult(all, leftOut)
	}
	if len(accepted) == 0 {
		r.LeftOut++
		return
	}
	setResult(accepted, overruled)
	v := decideClass(accepted)
	if v.disagree {
		setResult(v.labels, disputed)
		if r.Disputes++; len(r.DisputeList) < maxListed {
			d := Dispute{Stream: e.Stream, Seq: e.Seq, Row: e.Row}
			for _, l := range v.labels {
				d.Says = append(d.Says, fmt.Sprintf("%s: %s", l.who, l.class))
			}
			slices.Sort(d.Says)
			r.DisputeList = append(r.DisputeList, d)
		}
		return
	}
	setResult(v.labels, used)
	j.addExample(e, v)
}

// addExample adds an example. Sequences of a stream with the same class form a group if their
// samples overlap or are adjacent, like the pieces of a labeled part in a training.
func (j *joiner) addExample(e *Entry, v verdict) {
	r, n, class := &j.Report, len(j.Examples), v.class
	x := Example{Entry: *e, Class: class, Who: v.names()}
	for _, l := range v.labels {
		x.Labeled = max(x.Labeled, l.number)
	}
	if n > 0 {
		last := &j.Examples[n-1]
		x.Group = last.Group
		apart := j.policy.Kind == reservoir.Marked || j.policy.Kind == reservoir.Gap || j.policy.Kind == reservoir.Endless && e.Carried
		if apart || last.Stream != e.Stream || last.Class != class || !isAdjacent(&last.Entry, e) {
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

// isBefore reports whether a sample precedes another sample of its stream.
func (p Place) isBefore(o Place) bool {
	switch {
	case p.In != o.In:
		return p.In < o.In
	case p.Seq != o.Seq:
		return p.Seq < o.Seq
	}
	return p.Row < o.Row
}

// countLabels counts the labels by result.
func (j *joiner) countLabels(t Progress) {
	r := &j.Report
	r.Reasons = map[string]int{}
	for _, l := range j.book.Labels() {
		r.Current++
		switch j.results[l.number] {
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
			why := l.pendingReason(t)
			r.Reasons[why]++
			if len(r.PendingList) < maxListed {
				r.PendingList = append(r.PendingList, PendingLabel{l.number, l.stream, l.target(), l.class, l.who, why})
			}
		}
	}
}

// pendingReason explains why a label is pending.
func (l *Label) pendingReason(t Progress) string {
	passed, known := t.Passed[l.stream]
	gone := ""
	if t.Gone > 0 {
		gone = ", or its samples were removed: the log lacks its first messages"
	}
	switch {
	case l.number > t.Labels:
		return "not searched yet"
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

// target describes the target of a label.
func (l *Label) target() string {
	if l.seq != 0 {
		return fmt.Sprintf("seq %d row %d", l.seq, l.row)
	}
	return rfc3339(l.from) + " to " + rfc3339(l.to)
}
