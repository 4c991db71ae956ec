package alarm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Silences returns the alarms that silent rules raise at the server time now, when the output has
// no messages after Position. listening is the start of the process's present listening. The events
// take effect when they are stored and applied.
func (f *Fold) Silences(now, listening time.Time) []Event {
	due := map[alarmKey]*counter{}
	perStream := map[string]bool{} // rules whose keys are streams
	for _, r := range f.rules {
		if r.Kind != kindSilent || r.isQuiet(now) {
			continue
		}
		perStream[r.Name] = r.By == nil
		for key, c := range f.counters {
			last := c.Since
			if listening.After(last) {
				last = listening
			}
			if key.rule == r.Name && c.Alarm == 0 && now.Sub(last) >= r.Silent {
				due[key] = c
			}
		}
	}
	var events []Event
	for _, key := range slices.SortedFunc(maps.Keys(due), compareAlarmKeys) {
		e := f.newEvent(Raised, key, due[key])
		e.Time = now.UTC()
		if perStream[key.rule] {
			e.Stream = key.key
		}
		e.Number += uint64(len(events))
		e.Alarm, e.ID = e.Number, fmt.Sprintf("%s-%d", f.prefix, e.Number)
		events = append(events, e)
	}
	return events
}

func compareAlarmKeys(a, b alarmKey) int {
	return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.key, b.key))
}

// The reasons to refuse an acknowledgement.
var (
	// ErrNoAlarm means that the alarm is not active.
	ErrNoAlarm = errors.New("this alarm is not active")
	// ErrAcknowledged means that the alarm is already acknowledged.
	ErrAcknowledged = errors.New("this alarm is already acknowledged")
)

// Acknowledge returns the event that acknowledges an active alarm: the alarm with this number, or
// for 0 the present alarm. The event takes effect when it is stored and applied.
func (f *Fold) Acknowledge(rule, key string, number uint64, who string, now time.Time) (Event, error) {
	c := f.futureCounter(alarmKey{rule, key})
	switch {
	case c.Alarm == 0, number != 0 && number != c.Alarm:
		return Event{}, fmt.Errorf("alarm: rule %q, %q: %w", rule, key, ErrNoAlarm)
	case c.Acked:
		return Event{}, fmt.Errorf("alarm: rule %q, %q: %w", rule, key, ErrAcknowledged)
	}
	e := f.newEvent(Acknowledged, alarmKey{rule, key}, c)
	e.Who, e.Time = who, now.UTC()
	return e, nil
}

// ChangeRules returns the event that activates other rules. The event takes effect when it is
// stored and applied.
func (f *Fold) ChangeRules(rules Rules, configured, who string, now time.Time) Event {
	e := Event{Kind: RulesChanged, Time: now.UTC(), Position: f.position, Rules: rules.Texts(), Configured: configured, Who: who}
	f.assignNumber(&e)
	return e
}

// ApplyFact applies an event that does not follow from predictions: rules, an acknowledgement, an
// alarm for a silence. It returns the resulting events.
func (f *Fold) ApplyFact(e Event) ([]Event, error) {
	resumed := e.Kind == RulesChanged && e.Why != "" // the output went back in time: the rules stay
	if e.Number != f.number+1 || e.Position < f.position && !resumed {
		return nil, fmt.Errorf("alarm: event %d at position %d does not follow event %d at position %d", e.Number, e.Position, f.number, f.position)
	}
	f.replay.judged = nil
	if resumed {
		f.number = e.Number
		return nil, nil
	}
	f.position = e.Position
	if e.Kind == RulesChanged {
		f.applyAllWaiting()
		rules, err := ParseRules(e.Rules)
		if err != nil {
			return nil, err
		}
		f.number, f.configured = e.Number, e.Configured
		return f.replaceRules(rules, e.Time), nil
	}
	f.applyWaiting(alarmKey{e.Rule, e.Key}) // as in Acknowledge
	c := f.counters[alarmKey{e.Rule, e.Key}]
	r := f.rules.byName(e.Rule)
	if c == nil || r == nil || e.Kind == Cleared || (e.Kind == Raised) != (c.Alarm == 0) || e.Kind == Raised && r.Kind != kindSilent {
		return nil, fmt.Errorf("alarm: event %d, %s %q of %q, does not fit the previous events", e.Number, e.Kind, e.Rule, e.Key)
	}
	f.applyEvent(&e, c)
	return nil, nil
}

// replaceRules activates other rules. An alarm stays active if a rule of the same name covers the
// same streams; other alarms are cleared. Counting restarts.
func (f *Fold) replaceRules(rules Rules, now time.Time) (events []Event) {
	old := f.rules
	f.rules = rules
	for _, s := range f.streams {
		s.keys = nil
	}
	for _, key := range slices.SortedFunc(maps.Keys(f.counters), compareAlarmKeys) {
		c := f.counters[key]
		next, before := rules.byName(key.rule), old.byName(key.rule)
		if next != nil && before != nil && next.Kind == kindDrift && next.Text == before.Text {
			continue // a series keeps its learned reference
		}
		c.Drift, c.Inputs = nil, nil
		sameStreams := next.sameStreams(before)
		if !sameStreams && c.Alarm > 0 {
			e := f.newEvent(Cleared, key, c)
			e.Time, e.Why = now, "the rule was changed or removed"
			f.applyEvent(&e, c)
			events = append(events, e)
		}
		c.Last, c.Off = 0, 0
		if !sameStreams || c.Alarm == 0 && next.Kind != kindSilent {
			delete(f.counters, key)
		}
	}
	f.countSeries()
	return events
}

func (r Rules) byName(name string) *Rule {
	for _, rule := range r {
		if rule.Name == name {
			return rule
		}
	}
	return nil
}

// JudgedPlaces returns Logged.Judged for a fact that is stored now.
func (f *Fold) JudgedPlaces() []Place { return slices.Clone(f.replay.judged) }

// recordJudged records the judged predictions of a partition.
func (f *Fold) recordJudged(p Place) {
	f.replay.judged = append(slices.DeleteFunc(f.replay.judged, func(q Place) bool { return q.Partition == p.Partition }), p)
}

// attachJudged adds the judged predictions to an event.
func (f *Fold) attachJudged(e *Event) {
	e.judged, e.by = f.replay.judged, f.replay.current
	f.replay.judged = nil
	f.recordJudged(f.replay.current)
}

// LastJudged returns the last output message whose predictions were judged, and its storage time in
// ns since 1970; 0 = none, or unknown.
func (f *Fold) LastJudged() (seq uint64, stored int64) {
	if f.lastJudged == 0 {
		return 0, 0
	}
	return f.lastJudged, f.time.UnixNano()
}

// lastRulesChange returns the index of the last event that changed the rules, except after an
// output went back in time; -1 if none.
func lastRulesChange(log []Logged) int {
	for i := range slices.Backward(log) {
		if e := &log[i].Event; e.Kind == RulesChanged && e.Why == "" {
			return i
		}
	}
	return -1
}

// appliesAtOnce reports whether an event of the log takes effect before its prediction returns.
func (f *Fold) appliesAtOnce(l *Logged) bool {
	r := f.rules.byName(l.Event.Rule)
	if r == nil || r.Kind == kindSilent || l.Event.Kind == Cleared && l.Event.Why != "" {
		return true
	}
	return l.By == Place{} && len(f.replay.waiting[alarmKey{l.Event.Rule, l.Event.Key}]) == 0
}

// Resume continues after a message of an output that went back in time; log has the events of the
// lost messages. The log stays valid. The predictions return in new messages: each prediction
// judged before the last of these events is counted and decides nothing. An event takes effect when
// its prediction returns, in order for each key. Events of earlier rules and events decided by a
// clock take effect at once.
func (f *Fold) Resume(log []Logged, position uint64) error {
	f.position, f.lastJudged = position, 0
	barrier := lastRulesChange(log)
	if barrier >= 0 {
		f.applyAllWaiting()
	}
	for i := range log {
		e := &log[i].Event
		for _, p := range log[i].Judged {
			switch {
			case i <= barrier:
				f.partitions[p.Partition] = max(f.partitions[p.Partition], p.Number)
			case p.Number > f.partitions[p.Partition]:
				f.replay.decidedUntil[p.Partition] = max(f.replay.decidedUntil[p.Partition], p.Number)
			}
		}
		switch {
		case e.Kind == RulesChanged && e.Why != "": // an earlier time, the output went back
			f.number = e.Number
		case i <= barrier || f.appliesAtOnce(&log[i]):
			if err := f.AcceptEvent(*e); err != nil {
				return err
			}
		default:
			key := alarmKey{e.Rule, e.Key}
			f.replay.waiting[key] = append(f.replay.waiting[key], log[i])
			f.number = e.Number
		}
	}
	f.position = position
	f.countSeries()
	for name := range f.streams { // the streams' latest data may be lost
		f.changed[name] = true
	}
	return nil
}

// ResumptionEvent returns the event that records that the output went back in time and the log
// stays valid.
func (f *Fold) ResumptionEvent(why, who string, now time.Time) Event {
	e := f.ChangeRules(f.rules, f.configured, who, now)
	e.Why = why
	return e
}

// applyReturned applies the log's events of a key whose predictions have returned; all: applies
// every event.
func (f *Fold) applyReturned(key alarmKey, c *counter, all bool) {
	queue := f.replay.waiting[key]
	for len(queue) > 0 && (all || f.hasReturned(queue[0].By)) {
		f.updateAlarm(&queue[0].Event, c)
		queue = queue[1:]
	}
	if f.replay.waiting[key] = queue; len(queue) == 0 {
		delete(f.replay.waiting, key)
	}
}

// hasReturned reports whether a prediction has returned. The zero Place belongs to an
// acknowledgement, which follows the event that raised the alarm.
func (f *Fold) hasReturned(p Place) bool {
	if p.Partition == f.replay.current.Partition {
		return p.Number <= f.replay.current.Number
	}
	return p.Number <= f.partitions[p.Partition]
}

// futureCounter returns a key's counter after all waiting events of the log.
func (f *Fold) futureCounter(key alarmKey) *counter {
	c := new(counter)
	if current := f.counters[key]; current != nil {
		*c = *current
	}
	for i := range f.replay.waiting[key] {
		c.applyEvent(&f.replay.waiting[key][i].Event)
	}
	return c
}

// applyWaiting applies the waiting events of a key.
func (f *Fold) applyWaiting(key alarmKey) {
	if len(f.replay.waiting[key]) == 0 {
		return
	}
	c := f.counters[key]
	r := f.rules.byName(key.rule)
	counts := r != nil && r.Kind == kindDrift
	if c == nil {
		c = new(counter)
	} else if counts {
		f.series -= c.seriesCount()
	}
	f.applyReturned(key, c, true)
	if c.Alarm > 0 || c.Last != 0 || c.Accepted != 0 || c.Drift != nil || c.Inputs != nil {
		f.counters[key] = c
		if counts {
			f.series += c.seriesCount()
		}
	} else {
		delete(f.counters, key)
	}
}

// applyAllWaiting applies all waiting events: predictions that have not returned are not counted.
func (f *Fold) applyAllWaiting() {
	for key := range f.replay.waiting {
		f.applyWaiting(key)
	}
	for p, n := range f.replay.decidedUntil {
		f.partitions[p] = max(f.partitions[p], n)
	}
	clear(f.replay.decidedUntil)
}

// waitingEvents returns the waiting events, by number.
func (f *Fold) waitingEvents() (all []Logged) {
	for _, queue := range f.replay.waiting {
		all = append(all, queue...)
	}
	slices.SortFunc(all, func(a, b Logged) int {
		if a.Event.Number < b.Event.Number {
			return -1
		}
		return 1
	})
	return all
}
