package alarm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Known is a recorded prediction with its true class.
type Known struct {
	codec.Prediction
	Stored time.Time // as if the server had stored the prediction at this time
	// Label is the true class; empty: unknown. Strange means that the model does not know the class, or that the class
	// is everything except healthy data.
	Label   string
	Strange bool
}

// Rehearsal is the result of rules on recorded predictions.
type Rehearsal struct {
	Weeks  float64     `json:"weeks"` // total time of all streams; 0: unknown
	Rules  []RuleCount `json:"rules"`
	Events []Event     `json:"events"`
}

// RuleCount counts the alarms of a rule. A fault is a series of predictions of one key whose true
// class is in the rule; unlabeled predictions next to a fault belong to it. Rules of other kinds
// than class and novel have no faults: their alarms are Unlabeled.
type RuleCount struct {
	Rule         string   `json:"rule"`
	Alarms       int      `json:"alarms"`    // raised
	True         int      `json:"true"`      // raised during a fault
	False        int      `json:"false"`     // raised without a fault
	Unlabeled    int      `json:"unlabeled"` // raised at a prediction without a label, and not next to a fault
	Faults       int      `json:"faults"`
	Found        int      `json:"found"`    // faults during which the alarm is active
	Missed       int      `json:"missed"`   // other faults
	PerWeek      *float64 `json:"per_week"` // alarms of a stream; nil: the time is unknown
	FalsePerWeek *float64 `json:"false_per_week"`
	Rows         Rows     `json:"rows"`
}

// Rows compares the state of the alarm after each labeled prediction with the label. nil: undefined.
type Rows struct {
	Faulty      int      `json:"faulty"`
	Healthy     int      `json:"healthy"`
	Active      int      `json:"active"`       // of Faulty
	FalseActive int      `json:"false_active"` // of Healthy
	F1          *float64 `json:"f1"`
	FalseShare  *float64 `json:"false_share"`  // FalseActive / Healthy
	MissedShare *float64 `json:"missed_share"` // share of Faulty without an active alarm
}

// ErrSilent means that a rule depends on a clock.
var ErrSilent = errors.New("a rule of kind silent depends on a clock: recorded predictions have none; leave it out")

// Rehearse judges recorded predictions, in the order of their times, with the fold of the live
// alarms. classes are the names of the model's classes.
func Rehearse(rules Rules, classes []string, all []Known) (*Rehearsal, error) {
	f := NewFold("rehearsal", 0)
	for _, r := range rules {
		if r.Kind == kindSilent {
			return nil, fmt.Errorf("alarm: rule %q: %w", r.Name, ErrSilent)
		}
	}
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "", time.Time{})); err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Known) int { return a.Stored.Compare(b.Stored) })
	result := &Rehearsal{Rules: make([]RuleCount, len(rules)), Events: []Event{}}
	counts := make([]keyCounts, len(rules))
	for i, r := range rules {
		result.Rules[i].Rule = r.Name
		counts[i] = keyCounts{rule: r, count: &result.Rules[i], keys: map[string]*keyState{}}
	}
	for i := range all {
		m := Message{Seq: uint64(i + 1), Stored: all[i].Stored, Outs: uint64(i + 1), Labels: classes, Predictions: []codec.Prediction{all[i].Prediction}}
		events, err := f.JudgeMessage(&m)
		if err != nil {
			return nil, err
		}
		result.Events = append(result.Events, events...)
		for k := range counts {
			counts[k].add(&all[i], events)
		}
	}
	for k := range counts {
		counts[k].finish()
	}
	return result, nil
}

// keyCounts counts the alarms of a rule.
type keyCounts struct {
	rule  *Rule
	count *RuleCount
	keys  map[string]*keyState
}

// keyState is the state of an alarm and of the faults of its key.
type keyState struct {
	active  bool
	fault   bool // the last labeled prediction is of a fault
	found   bool // the alarm was active during this fault
	pending int  // alarms raised at unlabeled predictions since the last labeled prediction without a fault
	waiting bool // active at such a prediction
}

// IsFault reports whether the true class of a prediction is in the rule. known is false without a label, and for rules
// without classes.
func (r *Rule) IsFault(k *Known) (fault, known bool) {
	if k.Label == "" {
		return false, false
	}
	switch c := r.Condition.(type) {
	case *classCondition:
		return slices.Contains(c.names, k.Label), true
	case *noveltyCondition:
		return k.Strange, true
	}
	return false, false
}

// add counts a prediction and the events that followed.
func (c *keyCounts) add(k *Known, events []Event) {
	key, ok := c.rule.Key(k.Stream)
	if !ok {
		return
	}
	s := c.keys[key]
	if s == nil {
		s = &keyState{}
		c.keys[key] = s
	}
	raised := s.follow(c.rule.Name, events)
	if raised {
		c.count.Alarms++
	}
	fault, known := c.rule.IsFault(k)
	switch {
	case known && fault:
		c.addFaulty(s, raised)
	case known:
		c.endFault(s)
		c.addHealthy(s, raised)
	case s.fault && raised:
		c.count.True++
	case raised:
		s.pending++
	}
	s.found = s.found || s.fault && s.active
	s.waiting = !known && (s.waiting || s.active)
}

// follow applies the events of a rule.
func (s *keyState) follow(rule string, events []Event) (raised bool) {
	for i := range events {
		switch e := &events[i]; {
		case e.Rule != rule:
		case e.Kind == Raised:
			s.active, raised = true, true
		case e.Kind == Cleared:
			s.active = false
		}
	}
	return raised
}

func (c *keyCounts) addFaulty(s *keyState, raised bool) {
	if !s.fault {
		c.count.Faults++
		s.fault, s.found = true, s.waiting && s.active
		c.count.True += s.pending
		s.pending = 0
	}
	c.count.Rows.Faulty++
	if raised {
		c.count.True++
	}
	if s.active {
		c.count.Rows.Active++
	}
}

func (c *keyCounts) addHealthy(s *keyState, raised bool) {
	c.count.Rows.Healthy++
	if raised {
		c.count.False++
	}
	if s.active {
		c.count.Rows.FalseActive++
	}
}

// endFault counts the fault before a prediction without a fault, or alarms next to no fault.
func (c *keyCounts) endFault(s *keyState) {
	if s.fault && s.found {
		c.count.Found++
	}
	s.fault, s.found = false, false
	c.count.Unlabeled += s.pending
	s.pending = 0
}

// finish counts open faults and computes shares.
func (c *keyCounts) finish() {
	for _, s := range c.keys {
		c.endFault(s)
	}
	n := c.count
	n.Missed = n.Faults - n.Found
	r := &n.Rows
	missed := r.Faulty - r.Active
	r.F1 = share(2*r.Active, 2*r.Active+r.FalseActive+missed)
	r.FalseShare, r.MissedShare = share(r.FalseActive, r.Healthy), share(missed, r.Faulty)
}

func share(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	x := float64(n) / float64(of)
	return &x
}

// SetWeeks sets the total time of all streams.
func (r *Rehearsal) SetWeeks(weeks float64) {
	if r.Weeks = weeks; weeks <= 0 {
		return
	}
	for i := range r.Rules {
		n := &r.Rules[i]
		all, wrong := float64(n.Alarms)/weeks, float64(n.False)/weeks
		n.PerWeek, n.FalsePerWeek = &all, &wrong
	}
}
