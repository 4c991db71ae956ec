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
	c := f.counters[at{rule, key}]
	switch {
	case c == nil || c.Alarm == 0, number != 0 && number != c.Alarm:
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
	if e.Number != f.number+1 || e.Position < f.position {
		return nil, fmt.Errorf("alarm: event %d at position %d does not follow event %d at position %d", e.Number, e.Position, f.number, f.position)
	}
	f.position = e.Position
	if e.Kind == RulesChanged {
		rules, err := ParseRules(e.Rules)
		if err != nil {
			return nil, err
		}
		f.number, f.configured = e.Number, e.Configured
		return f.use(rules, e.Time), nil
	}
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
		c.Drift = nil
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
