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
	Seq         uint64 // message number in the output
	Stored      time.Time
	Partition   int
	Outs        uint64 // number of the partition's predictions, including this message
	Labels      []string
	Predictions []codec.Prediction
}

// ErrMissing means that earlier predictions were removed.
var ErrMissing = errors.New("predictions are missing")

// alarmKey identifies an alarm.
type alarmKey struct{ rule, key string }

// counter is the state of a rule for a key. Keys without state have no counter.
type counter struct {
	Last     uint64    `json:"last,omitempty"`  // bit i: the i-th prediction before the newest was on
	Off      int       `json:"off,omitempty"`   // consecutive predictions that were off while the alarm is active
	Since    time.Time `json:"since,omitzero"`  // storage time of the first prediction of the current on series; silent: of the last prediction
	Alarm    uint64    `json:"alarm,omitempty"` // number of the event that raised the alarm; 0 = not active
	Acked    bool      `json:"acknowledged,omitempty"`
	RaisedAt time.Time `json:"raised_at,omitzero"`
	Stream   string    `json:"stream,omitempty"`
	Class    string    `json:"class,omitempty"`
	Evidence
	Channels []ChannelShare `json:"channels,omitempty"` // see Event

	// For rules with accept.
	Peak       float32   `json:"peak,omitempty"`       // largest novelty while the alarm is active
	Accepted   float32   `json:"accepted,omitempty"`   // novelty up to this level is accepted; 0 = none
	UsualSince time.Time `json:"usual_since,omitzero"` // with an accepted level: start of the predictions that do not meet the condition

	// For rules of kind drift.
	Drift  *drift.Detector  `json:"drift,omitempty"`
	Inputs []drift.Detector `json:"inputs,omitempty"` // one detector per input series
	Before int64            `json:"before,omitempty"` // time of the previous prediction, ns since 1970; 0 = none
	Change string           `json:"change,omitempty"` // last detected change
}

// Fold derives alarms from predictions: the result depends only on the rules, the ordered
// predictions and the facts (ApplyFact). One goroutine owns a Fold.
type Fold struct {
	prefix          string // of event IDs
	rules           Rules
	configured      string // see Event
	position        uint64 // in the output
	number          uint64 // of the last event
	time            time.Time
	partitions      map[int]uint64 // number of judged predictions per partition
	counters        map[alarmKey]*counter
	streams         map[string]*Latest
	maxStreams      int  // limit of streams
	series          int  // number of series of drift rules
	crowded         bool // some keys have no series
	crowdedReported bool // ReportCrowded has reported

	changed    map[string]bool // streams that changed since TakeChanges
	gone       map[string]bool // streams removed since TakeChanges
	lastJudged uint64          // last message with predictions; 0 = unknown
	replay     replay

	full         bool // the limit is reached and all streams have alarms
	fullReported bool // ReportFull has reported
}

// replay is a Fold's data about republished predictions, see Resume.
type replay struct {
	judged       []Place               // partitions judged since the last event, in order
	current      Place                 // the prediction being judged
	waiting      map[alarmKey][]Logged // logged events whose predictions will return
	decidedUntil map[int]uint64        // last prediction of each partition that the log decides
	tail         []Logged              // see Tail
}

// NewFold starts after a message of the output. Event IDs start with prefix, which must be unique
// among alarm logs.
func NewFold(prefix string, position uint64) *Fold {
	return &Fold{
		prefix: prefix, position: position, maxStreams: MostStreams,
		partitions: map[int]uint64{}, counters: map[alarmKey]*counter{}, streams: map[string]*Latest{}, changed: map[string]bool{}, gone: map[string]bool{},
		replay: replay{waiting: map[alarmKey][]Logged{}, decidedUntil: map[int]uint64{}},
	}
}

// Position returns the last judged message of the output.
func (f *Fold) Position() uint64 { return f.position }

// Number returns the number of the last event; 0 = none.
func (f *Fold) Number() uint64 { return f.number }

// Rules returns the current rules and the fingerprint of their configuration.
func (f *Fold) Rules() (Rules, string) { return f.rules, f.configured }

// JudgeMessage judges a message of the output, and returns the resulting events. Predictions that
// were already judged are skipped. The error is ErrMissing if earlier predictions are unknown; the
// fold is then unchanged.
func (f *Fold) JudgeMessage(m *Message) ([]Event, error) {
	if m.Seq <= f.position {
		return nil, nil
	}
	if err := f.CheckMissing(m); err != nil {
		return nil, err
	}
	unjudged := m.Predictions
	judged, seenBefore := f.partitions[m.Partition]
	if seenBefore {
		before := m.Outs - uint64(len(unjudged))
		unjudged = unjudged[min(judged-before, uint64(len(unjudged))):]
	}
	f.partitions[m.Partition] = max(judged, m.Outs)
	f.position, f.lastJudged, f.time = m.Seq, m.Seq, m.Stored.UTC()
	var events []Event
	for i := range unjudged {
		p := unjudged[i]
		f.replay.current = Place{m.Partition, m.Outs - uint64(len(unjudged)-1-i)}
		if i == 0 {
			f.recordJudged(f.replay.current)
		}
		f.replay.judged[len(f.replay.judged)-1] = f.replay.current
		if !isFinite(p.Probability) { // not allowed in JSON
			p.Probability = 0
		}
		events = append(events, f.judgePrediction(m, &p)...)
	}
	if f.replay.decidedUntil[m.Partition] <= m.Outs {
		delete(f.replay.decidedUntil, m.Partition)
	}
	return events, nil
}

// CheckMissing returns an error that wraps ErrMissing if predictions before a message are missing.
func (f *Fold) CheckMissing(m *Message) error {
	n := uint64(len(m.Predictions))
	if n > m.Outs {
		return fmt.Errorf("alarm: message %d of the output has %d predictions, but a total of %d", m.Seq, n, m.Outs)
	}
	if judged, known := f.partitions[m.Partition]; known && m.Outs-n > judged {
		return fmt.Errorf("alarm: partition %d: %w: numbers %d to %d, before message %d of the output", m.Partition, ErrMissing, judged+1, m.Outs-n, m.Seq)
	}
	return nil
}

// PassMessage records an output message without predictions or partition.
func (f *Fold) PassMessage(seq uint64) { f.position = max(f.position, seq) }

// judgePrediction judges a prediction by all rules.
func (f *Fold) judgePrediction(m *Message, p *codec.Prediction) (events []Event) {
	class := ""
	if p.Class >= 0 && int(p.Class) < len(m.Labels) {
		class = m.Labels[p.Class]
	}
	s := f.recordPrediction(m, p, class)
	if s == nil {
		return nil
	}
	for i, r := range f.rules {
		if !s.covered[i] || !r.countsPrediction(p, class) {
			continue
		}
		if e, changed := f.judgeByRule(r, alarmKey{r.Name, s.keys[i]}, m, p, class); changed {
			events = append(events, e)
		}
	}
	return events
}

// judgeByRule judges a prediction by one rule. changed means that the alarm changed; e is then the
// event.
func (f *Fold) judgeByRule(r *Rule, key alarmKey, m *Message, p *codec.Prediction, class string) (e Event, changed bool) {
	c := f.counters[key]
	active := c != nil && c.Alarm > 0
	if s, ok := r.Condition.(*driftCondition); ok && !f.extendSeries(s, c, p) {
		return e, false
	}
	if c == nil {
		c = new(counter)
	}
	if r.Kind != kindSilent {
		r.updateCounter(c, p, class, f.time)
	}
	decided := f.replay.current.Number <= f.replay.decidedUntil[m.Partition] // by the log
	if decided || len(f.replay.waiting[key]) > 0 {
		f.applyReturned(key, c, !decided)
		active = c.Alarm > 0
	}
	kind := ""
	if !decided {
		kind = c.eventKind(r, p, f.time, active)
	}
	if kind != "" {
		e = f.newEvent(kind, key, c)
		e.Stream, e.Class, e.Evidence = p.Stream, class, newEvidence(p)
		f.addDetails(&e, c, r, p)
		f.attachJudged(&e)
		f.applyEvent(&e, c)
	}
	if r.Kind == kindSilent && c.Alarm == 0 {
		c.Since = f.time
	}
	f.storeCounter(key, c, r)
	return e, kind != ""
}

// eventKind returns the kind of the resulting event; empty for none. active is the alarm's state
// before the prediction.
func (c *counter) eventKind(r *Rule, p *codec.Prediction, now time.Time, active bool) string {
	switch {
	case active && c.isWorse(r, p, now):
		return Raised
	case active && (c.shouldClear(r, now) || c.shouldAccept(r, now)):
		return Cleared
	case !active && c.shouldRaise(r, now):
		return Raised
	}
	return ""
}

// extendSeries reserves the series that a prediction adds to a counter; false if there are too
// many.
func (f *Fold) extendSeries(s *driftCondition, c *counter, p *codec.Prediction) bool {
	more := s.seriesAdded(c, p)
	if more > 0 && f.series+more > MostSeries {
		f.crowded = true
		return false
	}
	f.series += more
	return true
}

// storeCounter stores a counter, or removes an empty counter.
func (f *Fold) storeCounter(key alarmKey, c *counter, r *Rule) {
	if c.Last != 0 || c.Alarm != 0 || c.Accepted != 0 || r.Kind == kindSilent || r.Kind == kindDrift {
		f.counters[key] = c
	} else {
		delete(f.counters, key)
	}
}

func isFinite(x float32) bool { return x-x == 0 }

// countsPrediction reports whether a rule counts a prediction.
func (r *Rule) countsPrediction(p *codec.Prediction, class string) bool {
	if r.Final && p.Flags&outcome.FlagEarly != 0 {
		return false
	}
	if r.Unless != nil {
		if on, _ := r.Unless.Judge(p, class); on {
			return false
		}
	}
	if r.Only == nil {
		return true
	}
	on, _ := r.Only.Judge(p, class)
	return on
}

// updateCounter counts a prediction.
func (r *Rule) updateCounter(c *counter, p *codec.Prediction, class string, now time.Time) {
	on, off := r.Condition.Judge(p, class)
	if s, ok := r.Condition.(*driftCondition); ok {
		if on, off = s.detectChange(c, p, class); c.Alarm == 0 && c.Last != 0 {
			return // detected in a quiet time: the detection is kept
		}
	}
	if r.Accept > 0 {
		on, off = c.judgeAccepted(r, p, on, off, now)
	}
	c.Last = c.Last << 1 & (1<<r.N - 1) // all bits if N is Window
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

// shouldRaise reports whether an inactive alarm is raised.
func (c *counter) shouldRaise(r *Rule, now time.Time) bool {
	return r.Kind != kindSilent && bits.OnesCount64(c.Last) >= r.K && !r.isQuiet(now)
}

// shouldClear reports whether a prediction clears an active alarm.
func (c *counter) shouldClear(r *Rule, now time.Time) bool {
	return (r.Kind == kindSilent || c.Off >= r.ClearAfter) && now.Sub(c.RaisedAt).Abs() >= r.Hold // the server's clock may be set back
}

// newEvent returns the next event of an alarm, at the present time.
func (f *Fold) newEvent(kind string, key alarmKey, c *counter) Event {
	e := Event{
		Kind: kind, Rule: key.rule, Key: key.key, Alarm: c.Alarm, Since: c.Since, Time: f.time, Position: f.position,
		Stream: c.Stream, Class: c.Class, Evidence: c.Evidence, Channels: c.Channels,
	}
	f.assignNumber(&e)
	if kind == Raised {
		e.Alarm = e.Number
	}
	return e
}

func (f *Fold) assignNumber(e *Event) {
	e.Number = f.number + 1
	e.ID = fmt.Sprintf("%s-%d", f.prefix, e.Number)
}

// applyEvent applies the next event.
func (f *Fold) applyEvent(e *Event, c *counter) {
	f.number = e.Number
	f.updateAlarm(e, c)
}

// updateAlarm applies an event to its counter and to its stream's latest data.
func (f *Fold) updateAlarm(e *Event, c *counter) {
	c.applyEvent(e)
	f.updateStream(e)
}

// applyEvent applies an event of its alarm.
func (c *counter) applyEvent(e *Event) {
	switch e.Kind {
	case Raised:
		c.Alarm, c.Acked, c.RaisedAt, c.Off = e.Number, false, e.Time, 0
		c.Peak = e.Novelty
		c.Stream, c.Class, c.Evidence, c.Channels, c.Since = e.Stream, e.Class, e.Evidence, e.Channels, e.Since
	case Acknowledged:
		c.Acked = true
	case Cleared:
		*c = counter{Since: c.Since, Drift: c.Drift, Inputs: c.Inputs, Before: c.Before, Accepted: max(c.Accepted, e.Accepted), UsualSince: c.UsualSince}
	}
}

// AcceptEvent applies an event without judging, because its predictions were removed.
func (f *Fold) AcceptEvent(e Event) error {
	if e.Kind == RulesChanged {
		e.Position = max(e.Position, f.position)
		_, err := f.ApplyFact(e)
		return err
	}
	key := alarmKey{e.Rule, e.Key}
	c := f.counters[key]
	if c == nil {
		c = new(counter)
	}
	f.applyEvent(&e, c)
	if delete(f.counters, key); (c.Alarm > 0 || c.Accepted > 0) && f.rules.byName(e.Rule) != nil {
		f.counters[key] = c
	}
	return nil
}

// Rewind continues after an earlier message of an output that went back in time: republished
// predictions keep their numbers.
func (f *Fold) Rewind(position uint64) {
	f.position, f.lastJudged = position, 0
	f.countSeries()
}

// SkipTo continues after a message of the output without judging earlier messages: active alarms
// stay active, counting restarts.
func (f *Fold) SkipTo(position uint64) {
	f.applyAllWaiting()
	f.position = max(f.position, position)
	clear(f.partitions)
	for key, c := range f.counters {
		c.Last, c.Off = 0, 0
		if r := f.rules.byName(key.rule); c.Alarm == 0 && (r == nil || r.Kind != kindSilent && r.Kind != kindDrift) {
			delete(f.counters, key)
		}
	}
}
