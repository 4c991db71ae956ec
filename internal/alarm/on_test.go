package alarm

import (
	"slices"
	"time"
)

// ActiveAlarms returns the active alarms, sorted by rule and key.
func (f *Fold) ActiveAlarms() []ActiveAlarm {
	var all []ActiveAlarm
	for which, c := range f.counters {
		if c.Alarm > 0 {
			all = append(all, ActiveAlarm{
				Rule: which.rule, Key: which.key, Alarm: c.Alarm, Acknowledged: c.Acked, Raised: c.RaisedAt,
				Stream: c.Stream, Class: c.Class, Evidence: c.Evidence,
			})
		}
	}
	slices.SortFunc(all, func(a, b ActiveAlarm) int { return compareAlarmKeys(alarmKey{a.Rule, a.Key}, alarmKey{b.Rule, b.Key}) })
	return all
}

// ActiveAlarm is an active alarm.
type ActiveAlarm struct {
	Rule         string
	Key          string
	Alarm        uint64 // number of the event that raised the alarm
	Acknowledged bool
	Raised       time.Time
	Stream       string
	Class        string
	Evidence
}
