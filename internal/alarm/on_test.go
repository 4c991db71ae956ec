package alarm

import (
	"slices"
	"time"
)

// On are the alarms that are on, by rule and key.
func (f *Fold) On() []On {
	var all []On
	for which, c := range f.counters {
		if c.Alarm > 0 {
			all = append(all, On{
				Rule: which.rule, Key: which.key, Alarm: c.Alarm, Acknowledged: c.Acked, Raised: c.RaisedAt,
				Stream: c.Stream, Class: c.Class, Evidence: c.Evidence,
			})
		}
	}
	slices.SortFunc(all, func(a, b On) int { return compareAt(at{a.Rule, a.Key}, at{b.Rule, b.Key}) })
	return all
}

// On is an alarm that is on.
type On struct {
	Rule         string
	Key          string
	Alarm        uint64 // number of the event that raised it
	Acknowledged bool
	Raised       time.Time
	Stream       string
	Class        string
	Evidence
}
