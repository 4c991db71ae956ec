package alarm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Silences are the alarms that silent rules raise now, the time at which the server had
// nothing behind Position. listening is since when somebody has been there to hear
// predictions. They become true when they are stored and applied.
func (f *Fold) Silences(now, listening time.Time) []Event {
	due := map[at]*counter{}
	own := map[string]bool{} // rules whose keys are streams
	for _, r := range f.rules {
		if r.Kind != kindSilent || r.quietAt(now) {
			continue
		}
		own[r.Name] = r.By == nil
		for which, c := range f.counters {
			last := c.Since
			if listening.After(last) {
				last = listening
			}
			if which.rule == r.Name && c.Alarm == 0 && now.Sub(last) >= r.Silent {
				due[which] = c
			}
		}
	}
	var events []Event
	for _, which := range slices.SortedFunc(maps.Keys(due), compareAt) {
		e := f.next(Raised, which, due[which])
		e.Time = now.UTC()
		if own[which.rule] {
			e.Stream = which.key
		}
		e.Number += uint64(len(events))
		e.Alarm, e.ID = e.Number, fmt.Sprintf("%s-%d", f.prefix, e.Number)
		events = append(events, e)
	}
	return events
}

func compareAt(a, b at) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.key, b.key)) }

// The reasons for which an alarm is not acknowledged.
var (
	// ErrNoAlarm is an alarm that is not on.
	ErrNoAlarm = errors.New("this alarm is not on")
	// ErrAcknowledged is an alarm that somebody has acknowledged.
	ErrAcknowledged = errors.New("this alarm has been acknowledged")
)

// Acknowledge is the event that acknowledges an alarm that is on: of that number, or
// with 0 the one that is on now. It becomes true when it is stored and applied.
func (f *Fold) Acknowledge(rule, key string, number uint64, who string, now time.Time) (Event, error) {
	c := f.coming(at{rule, key})
	switch {
	case c.Alarm == 0, number != 0 && number != c.Alarm:
		return Event{}, fmt.Errorf("alarm: rule %q, %q: %w", rule, key, ErrNoAlarm)
	case c.Acked:
		return Event{}, fmt.Errorf("alarm: rule %q, %q: %w", rule, key, ErrAcknowledged)
	}
	e := f.next(Acknowledged, at{rule, key}, c)
	e.Who, e.Time = who, now.UTC()
	return e, nil
}

// ChangeRules is the event by which other rules hold from here on. It becomes true when
// it is stored and applied.
func (f *Fold) ChangeRules(rules Rules, configured, who string, now time.Time) Event {
	e := Event{Kind: RulesChanged, Time: now.UTC(), Position: f.position, Rules: rules.Texts(), Configured: configured, Who: who}
	f.numbered(&e)
	return e
}

// Apply takes an event that does not follow from predictions: rules, an
// acknowledgement, an alarm for a silence. It returns the events that follow from it.
func (f *Fold) Apply(e Event) ([]Event, error) {
	resumed := e.Kind == RulesChanged && e.Why != "" // the output went back in time: the same rules hold
	if e.Number != f.number+1 || e.Position < f.position && !resumed {
		return nil, fmt.Errorf("alarm: event %d at position %d does not follow event %d at position %d", e.Number, e.Position, f.number, f.position)
	}
	f.again.trail = nil
	if resumed {
		f.number = e.Number
		return nil, nil
	}
	f.position = e.Position
	if e.Kind == RulesChanged {
		f.settleAll()
		rules, err := ParseRules(e.Rules)
		if err != nil {
			return nil, err
		}
		f.number, f.configured = e.Number, e.Configured
		return f.use(rules, e.Time), nil
	}
	f.settle(at{e.Rule, e.Key}) // what Acknowledge looked at
	c := f.counters[at{e.Rule, e.Key}]
	r := f.rules.named(e.Rule)
	if c == nil || r == nil || e.Kind == Cleared || (e.Kind == Raised) != (c.Alarm == 0) || e.Kind == Raised && r.Kind != kindSilent {
		return nil, fmt.Errorf("alarm: event %d, %s %q of %q, does not fit what was before it", e.Number, e.Kind, e.Rule, e.Key)
	}
	f.apply(&e, c)
	return nil, nil
}

// use makes other rules hold. Alarms stay on where a rule of that name is about the
// same streams; the others are cleared. Counting begins anew.
func (f *Fold) use(rules Rules, now time.Time) (events []Event) {
	old := f.rules
	f.rules = rules
	for _, s := range f.streams {
		s.keys = nil
	}
	for _, which := range slices.SortedFunc(maps.Keys(f.counters), compareAt) {
		c := f.counters[which]
		next, before := rules.named(which.rule), old.named(which.rule)
		if next != nil && before != nil && next.Kind == kindDrift && next.Text == before.Text {
			continue // what a series has been is not learned twice
		}
		c.Drift, c.Inputs = nil, nil
		stays := next.alike(before)
		if !stays && c.Alarm > 0 {
			e := f.next(Cleared, which, c)
			e.Time, e.Why = now, "the rule was changed or removed"
			f.apply(&e, c)
			events = append(events, e)
		}
		c.Last, c.Off = 0, 0
		if !stays || c.Alarm == 0 && next.Kind != kindSilent {
			delete(f.counters, which)
		}
	}
	f.countSeries()
	return events
}

func (r Rules) named(name string) *Rule {
	for _, one := range r {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// Judged is what Logged has of an event that is not Take's, and is stored now.
func (f *Fold) Judged() []Place { return slices.Clone(f.again.trail) }

// tread notes how far the predictions of a partition have been judged.
func (f *Fold) tread(p Place) {
	f.again.trail = append(slices.DeleteFunc(f.again.trail, func(q Place) bool { return q.Partition == p.Partition }), p)
}

// place gives an event what had been judged.
func (f *Fold) place(e *Event) {
	e.judged, e.by = f.again.trail, f.again.now
	f.again.trail = nil
	f.tread(f.again.now)
}

// Taken is the last message of the output whose predictions were judged, and when it was
// stored, ns since 1970; 0 = none, or not known.
func (f *Fold) Taken() (seq uint64, stored int64) {
	if f.taken == 0 {
		return 0, 0
	}
	return f.taken, f.time.UnixNano()
}

// lastRules is the index of the last event that changed the rules, but for those of an output
// that went back; -1 if there is none.
func lastRules(log []Logged) int {
	for i := range slices.Backward(log) {
		if e := &log[i].Event; e.Kind == RulesChanged && e.Why == "" {
			return i
		}
	}
	return -1
}

// trueAtOnce reports whether an event of the log does not wait for its prediction to come
// again.
func (f *Fold) trueAtOnce(l *Logged) bool {
	r := f.rules.named(l.Event.Rule)
	if r == nil || r.Kind == kindSilent || l.Event.Kind == Cleared && l.Event.Why != "" {
		return true
	}
	return l.By == Place{} && len(f.again.ahead[at{l.Event.Rule, l.Event.Key}]) == 0
}

// Resume continues behind a message of an output that went back in time, where the log has
// events of what was behind it. The log stands. The predictions come again, in other
// messages: each one that was judged before the last of these events is counted, and
// decides nothing; the events become true as the predictions come again that they follow
// from, those of a key in their order. What was judged by other rules than now, and what a
// clock has decided, is true at once.
func (f *Fold) Resume(log []Logged, position uint64) error {
	f.position, f.taken = position, 0
	barrier := lastRules(log)
	if barrier >= 0 {
		f.settleAll()
	}
	for i := range log {
		e := &log[i].Event
		for _, p := range log[i].Judged {
			switch {
			case i <= barrier:
				f.partitions[p.Partition] = max(f.partitions[p.Partition], p.Number)
			case p.Number > f.partitions[p.Partition]:
				f.again.until[p.Partition] = max(f.again.until[p.Partition], p.Number)
			}
		}
		switch {
		case e.Kind == RulesChanged && e.Why != "": // of an output that went back before
			f.number = e.Number
		case i <= barrier || f.trueAtOnce(&log[i]):
			if err := f.Believe(*e); err != nil {
				return err
			}
		default:
			which := at{e.Rule, e.Key}
			f.again.ahead[which] = append(f.again.ahead[which], log[i])
			f.number = e.Number
		}
	}
	f.position = position
	f.countSeries()
	for name := range f.streams { // what is known of them may be lost, too
		f.changed[name] = true
	}
	return nil
}

// Resumed is the event that says that the output went back in time, and that the log
// stands.
func (f *Fold) Resumed(why, who string, now time.Time) Event {
	e := f.ChangeRules(f.rules, f.configured, who, now)
	e.Why = why
	return e
}

// come makes true what the log says of a key, as far as its predictions have come again;
// all: whether or not.
func (f *Fold) come(which at, c *counter, all bool) {
	queue := f.again.ahead[which]
	for len(queue) > 0 && (all || f.reached(queue[0].By)) {
		f.mark(&queue[0].Event, c)
		queue = queue[1:]
	}
	if f.again.ahead[which] = queue; len(queue) == 0 {
		delete(f.again.ahead, which)
	}
}

// reached reports whether a prediction has come again. The zero Place is that of an
// acknowledgement, which comes behind what raised the alarm.
func (f *Fold) reached(p Place) bool {
	if p.Partition == f.again.now.Partition {
		return p.Number <= f.again.now.Number
	}
	return p.Number <= f.partitions[p.Partition]
}

// coming is what a key's counter will be when all is true that the log says of it.
func (f *Fold) coming(which at) *counter {
	c := new(counter)
	if is := f.counters[which]; is != nil {
		*c = *is
	}
	for i := range f.again.ahead[which] {
		c.mark(&f.again.ahead[which][i].Event)
	}
	return c
}

// settle makes all true that the log says of a key.
func (f *Fold) settle(which at) {
	if len(f.again.ahead[which]) == 0 {
		return
	}
	c := f.counters[which]
	r := f.rules.named(which.rule)
	counts := r != nil && r.Kind == kindDrift
	if c == nil {
		c = new(counter)
	} else if counts {
		f.series -= c.series()
	}
	f.come(which, c, true)
	if c.Alarm > 0 || c.Last != 0 || c.Drift != nil || c.Inputs != nil {
		f.counters[which] = c
		if counts {
			f.series += c.series()
		}
	} else {
		delete(f.counters, which)
	}
}

// settleAll makes all true that the log says: what has not come again is not counted.
func (f *Fold) settleAll() {
	for which := range f.again.ahead {
		f.settle(which)
	}
	for p, n := range f.again.until {
		f.partitions[p] = max(f.partitions[p], n)
	}
	clear(f.again.until)
}

// waiting are the events that settle would make true, by their numbers.
func (f *Fold) waiting() (all []Logged) {
	for _, queue := range f.again.ahead {
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
