package alarm

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/drift"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Message is a message of a job's output.
type Message struct {
	Seq         uint64 // its number there
	Stored      time.Time
	Partition   int
	Outs        uint64 // predictions of the partition so far, these included
	Labels      []string
	Predictions []codec.Prediction
}

// ErrMissing is the error where predictions are gone that come before one that is
// there.
var ErrMissing = errors.New("predictions are missing")

// at is what an alarm is about.
type at struct{ rule, key string }

// counter is what a rule remembers of a key. There is none where nothing has to be
// remembered.
type counter struct {
	Last     uint64    `json:"last,omitempty"`  // bit i: the prediction i before the newest was on
	Off      int       `json:"off,omitempty"`   // how many were off since the last that was not, while the alarm is on
	Since    time.Time `json:"since,omitzero"`  // when the first was stored of those that are on; of silent, the last of all
	Alarm    uint64    `json:"alarm,omitempty"` // number of the event that raised it; 0 = the alarm is not on
	Acked    bool      `json:"acknowledged,omitempty"`
	RaisedAt time.Time `json:"raised_at,omitzero"`
	Stream   string    `json:"stream,omitempty"`
	Class    string    `json:"class,omitempty"`
	Evidence

	// Of rules of kind drift.
	Drift  *drift.Detector  `json:"drift,omitempty"`
	Inputs []drift.Detector `json:"inputs,omitempty"` // of what the inputs are like
	Before int64            `json:"before,omitempty"` // time of the prediction before, ns since 1970; 0 = none
	Change string           `json:"change,omitempty"` // what was found last
}

// Fold makes alarms of predictions: what it says is a function of its rules, of the
// predictions in their order and of the events that came from outside (Apply), and of
// nothing else. It belongs to one goroutine.
type Fold struct {
	prefix     string // of the events' IDs
	rules      Rules
	configured string // see Event
	position   uint64 // in the output
	number     uint64 // of the last event
	time       time.Time
	partitions map[int]uint64 // how many predictions of each have been judged
	counters   map[at]*counter
	streams    map[string]*Latest
	most       int  // streams
	series     int  // counters of rules of kind drift
	crowded    bool // there were keys without one
	told       bool // Crowded has said so

	changed map[string]bool // streams, since Changed
	gone    map[string]bool // likewise
	taken   uint64          // last message that had predictions; 0 = not known
	again   again

	busy bool // there are as many streams as may be, all with alarms
	said bool // Full has said so
}

// again is what a Fold knows of predictions that may come again, see Resume.
type again struct {
	trail []Place         // how far partitions have been judged since the last event, in that order
	now   Place           // the prediction that is judged
	ahead map[at][]Logged // events that the log has, of predictions that come again
	until map[int]uint64  // predictions of each partition of which the log says what follows
	tail  []Logged        // see Tail
}

// NewFold begins behind a message of the output. Events get IDs that begin with prefix,
// which no other log of alarms has.
func NewFold(prefix string, position uint64) *Fold {
	return &Fold{
		prefix: prefix, position: position, most: MostStreams,
		partitions: map[int]uint64{}, counters: map[at]*counter{}, streams: map[string]*Latest{}, changed: map[string]bool{}, gone: map[string]bool{},
		again: again{ahead: map[at][]Logged{}, until: map[int]uint64{}},
	}
}

// Position is the last message of the output that was judged.
func (f *Fold) Position() uint64 { return f.position }

// Number is that of the last event; 0 = none.
func (f *Fold) Number() uint64 { return f.number }

// Rules are those that hold, and what configuration they came with.
func (f *Fold) Rules() (Rules, string) { return f.rules, f.configured }

// Take judges a message of the output, and returns the events that follow from it.
// What was judged before is left out. The error is ErrMissing where predictions before
// it are not known; then nothing has changed.
func (f *Fold) Take(m *Message) ([]Event, error) {
	if m.Seq <= f.position {
		return nil, nil
	}
	if err := f.Missing(m); err != nil {
		return nil, err
	}
	fresh := m.Predictions
	judged, known := f.partitions[m.Partition]
	if known {
		before := m.Outs - uint64(len(fresh))
		fresh = fresh[min(judged-before, uint64(len(fresh))):]
	}
	f.partitions[m.Partition] = max(judged, m.Outs)
	f.position, f.taken, f.time = m.Seq, m.Seq, m.Stored.UTC()
	var events []Event
	for i := range fresh {
		p := fresh[i]
		f.again.now = Place{m.Partition, m.Outs - uint64(len(fresh)-1-i)}
		if i == 0 {
			f.tread(f.again.now)
		}
		f.again.trail[len(f.again.trail)-1] = f.again.now
		if !finite(p.Probability) { // JSON has no such numbers
			p.Probability = 0
		}
		events = append(events, f.predict(m, &p)...)
	}
	if f.again.until[m.Partition] <= m.Outs {
		delete(f.again.until, m.Partition)
	}
	return events, nil
}

// Missing is an error that wraps ErrMissing where predictions are gone that come before
// a message.
func (f *Fold) Missing(m *Message) error {
	n := uint64(len(m.Predictions))
	if n > m.Outs {
		return fmt.Errorf("alarm: message %d of the output has %d predictions and says that there were %d in all", m.Seq, n, m.Outs)
	}
	if judged, known := f.partitions[m.Partition]; known && m.Outs-n > judged {
		return fmt.Errorf("alarm: partition %d: %w: those with the numbers %d to %d, before message %d of the output", m.Partition, ErrMissing, judged+1, m.Outs-n, m.Seq)
	}
	return nil
}

// Pass notes a message of the output that has no predictions and no partition.
func (f *Fold) Pass(seq uint64) { f.position = max(f.position, seq) }

// predict judges a prediction by all rules.
func (f *Fold) predict(m *Message, p *codec.Prediction) (events []Event) {
	class := ""
	if p.Class >= 0 && int(p.Class) < len(m.Labels) {
		class = m.Labels[p.Class]
	}
	s := f.see(m, p, class)
	if s == nil {
		return nil
	}
	for i, r := range f.rules {
		if !s.covered[i] || !r.counts(p, class) {
			continue
		}
		if e, changed := f.predictBy(r, at{r.Name, s.keys[i]}, m, p, class); changed {
			events = append(events, e)
		}
	}
	return events
}

// predictBy judges a prediction by a rule that counts it. e is the event, if the alarm has
// changed.
func (f *Fold) predictBy(r *Rule, which at, m *Message, p *codec.Prediction, class string) (e Event, changed bool) {
	c := f.counters[which]
	was := c != nil && c.Alarm > 0
	if s, ok := r.Condition.(*series); ok && !f.extendSeries(s, c, p) {
		return e, false
	}
	if c == nil {
		c = new(counter)
	}
	if r.Kind != kindSilent {
		r.judge(c, p, class, f.time)
	}
	decided := f.again.now.Number <= f.again.until[m.Partition] // by the log
	if decided || len(f.again.ahead[which]) > 0 {
		f.come(which, c, !decided)
		was = c.Alarm > 0
	}
	kind := ""
	if !decided {
		kind = c.changes(r, f.time, was)
	}
	if kind != "" {
		e = f.next(kind, which, c)
		e.Stream, e.Class, e.Evidence = p.Stream, class, evidence(p)
		if kind == Raised {
			e.Change = c.Change
		}
		f.place(&e)
		f.apply(&e, c)
	}
	if r.Kind == kindSilent && c.Alarm == 0 {
		c.Since = f.time
	}
	f.keep(which, c, r)
	return e, kind != ""
}

// changes is the kind of the event that a counter gives rise to, by whether its alarm was on;
// empty for none.
func (c *counter) changes(r *Rule, now time.Time, was bool) string {
	switch {
	case was && c.over(r, now):
		return Cleared
	case !was && c.due(r, now):
		return Raised
	}
	return ""
}

// extendSeries makes room for the series that a prediction adds to a counter; false if there
// are too many.
func (f *Fold) extendSeries(s *series, c *counter, p *codec.Prediction) bool {
	more := s.more(c, p)
	if more > 0 && f.series+more > MostSeries {
		f.crowded = true
		return false
	}
	f.series += more
	return true
}

// keep stores a counter, or forgets one that holds nothing.
func (f *Fold) keep(which at, c *counter, r *Rule) {
	if c.Last != 0 || c.Alarm != 0 || r.Kind == kindSilent || r.Kind == kindDrift {
		f.counters[which] = c
	} else {
		delete(f.counters, which)
	}
}

func finite(x float32) bool { return x-x == 0 }

// counts reports whether a rule counts a prediction.
func (r *Rule) counts(p *codec.Prediction, class string) bool {
	if r.Final && p.Flags&outcome.FlagEarly != 0 {
		return false
	}
	if r.Only == nil {
		return true
	}
	on, _ := r.Only.Judge(p, class)
	return on
}

// judge counts a prediction.
func (r *Rule) judge(c *counter, p *codec.Prediction, class string, now time.Time) {
	on, off := r.Condition.Judge(p, class)
	if s, ok := r.Condition.(*series); ok {
		if on, off = s.judge(c, p, class); c.Alarm == 0 && c.Last != 0 {
			return // found in a quiet time: it stays found
		}
	}
	c.Last = c.Last << 1 & (1<<r.N - 1) // all bits where N is Window
	if on && c.Last == 0 && c.Alarm == 0 {
		c.Since = now
	}
	if on {
		c.Last |= 1
	}
	switch {
	case c.Alarm == 0:
	case off:
		c.Off++
	default:
		c.Off = 0
	}
}

// due reports whether an alarm that is not on is raised.
func (c *counter) due(r *Rule, now time.Time) bool {
	return r.Kind != kindSilent && bits.OnesCount64(c.Last) >= r.K && !r.quietAt(now)
}

// over reports whether an alarm that is on is cleared, by a prediction.
func (c *counter) over(r *Rule, now time.Time) bool {
	return (r.Kind == kindSilent || c.Off >= r.ClearAfter) && now.Sub(c.RaisedAt) >= r.Hold
}

// next is the next event of an alarm, of now.
func (f *Fold) next(kind string, which at, c *counter) Event {
	e := Event{
		Kind: kind, Rule: which.rule, Key: which.key, Alarm: c.Alarm, Since: c.Since, Time: f.time, Position: f.position,
		Stream: c.Stream, Class: c.Class, Evidence: c.Evidence,
	}
	f.numbered(&e)
	if kind == Raised {
		e.Alarm = e.Number
	}
	return e
}

func (f *Fold) numbered(e *Event) {
	e.Number = f.number + 1
	e.ID = fmt.Sprintf("%s-%d", f.prefix, e.Number)
}

// apply takes the next event.
func (f *Fold) apply(e *Event, c *counter) {
	f.number = e.Number
	f.mark(e, c)
}

// mark changes a counter as an event of its alarm says, and what is known of its stream.
func (f *Fold) mark(e *Event, c *counter) {
	c.mark(e)
	f.touch(e)
}

// mark changes a counter as an event of its alarm says.
func (c *counter) mark(e *Event) {
	switch e.Kind {
	case Raised:
		c.Alarm, c.Acked, c.RaisedAt, c.Off = e.Number, false, e.Time, 0
		c.Stream, c.Class, c.Evidence, c.Since = e.Stream, e.Class, e.Evidence, e.Since
	case Acknowledged:
		c.Acked = true
	case Cleared:
		*c = counter{Since: c.Since, Drift: c.Drift, Inputs: c.Inputs, Before: c.Before}
	}
}

// Believe takes an event as it is, of predictions that are gone.
func (f *Fold) Believe(e Event) error {
	if e.Kind == RulesChanged {
		e.Position = max(e.Position, f.position)
		_, err := f.Apply(e)
		return err
	}
	which := at{e.Rule, e.Key}
	c := f.counters[which]
	if c == nil {
		c = new(counter)
	}
	f.apply(&e, c)
	if delete(f.counters, which); c.Alarm > 0 && f.rules.named(e.Rule) != nil {
		f.counters[which] = c
	}
	return nil
}

// Rewind continues behind an earlier message of an output that went back in time: the
// predictions that are made again have the numbers that they had.
func (f *Fold) Rewind(position uint64) {
	f.position, f.taken = position, 0
	f.countSeries()
}

// Skip continues behind a message of the output without what was before it: alarms that
// are on stay on, counting begins anew.
func (f *Fold) Skip(position uint64) {
	f.settleAll()
	f.position = max(f.position, position)
	clear(f.partitions)
	for which, c := range f.counters {
		c.Last, c.Off = 0, 0
		if r := f.rules.named(which.rule); c.Alarm == 0 && (r == nil || r.Kind != kindSilent && r.Kind != kindDrift) {
			delete(f.counters, which)
		}
	}
}
