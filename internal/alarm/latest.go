package alarm

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// MostStreams is the maximum number of streams in a Fold. Beyond this, the streams without an alarm
// and with the oldest predictions are removed. If all streams have alarms, new streams are not
// judged.
const MostStreams = 1 << 20

// Latest is the last prediction of a stream, and its alarms.
type Latest struct {
	Stream string     `json:"stream"`
	Seq    uint64     `json:"seq"`
	Row    uint32     `json:"row"`
	Time   *time.Time `json:"time,omitempty"` // of the last sample
	Class  string     `json:"class"`
	Score  float32    `json:"score"`
	Evidence
	Integrity string    `json:"integrity"`
	Flags     string    `json:"flags,omitempty"`
	Seen      time.Time `json:"seen"`     // storage time of the prediction
	Position  uint64    `json:"position"` // of the prediction in the job's output
	// Alarms has the kind (raised or acknowledged) of each active alarm of this stream, by rule.
	// Alarms of groups of streams are not included.
	Alarms map[string]string `json:"alarms,omitempty"`

	keys    []string // alarm key for each rule; nil = not computed yet
	covered []bool   // for each rule
}

// recordPrediction stores a prediction; it returns nil if there are too many streams.
func (f *Fold) recordPrediction(m *Message, p *codec.Prediction, class string) *Latest {
	s := f.streams[p.Stream]
	if s == nil {
		if len(f.streams) >= f.maxStreams && !f.full {
			f.evictStreams()
		}
		if len(f.streams) >= f.maxStreams {
			f.full = true
			return nil
		}
		s = &Latest{Stream: p.Stream}
		f.streams[p.Stream] = s
	}
	s.Seq, s.Row, s.Class, s.Score, s.Evidence = p.Seq, p.Row, class, p.Score, newEvidence(p)
	if !isFinite(p.Score) {
		s.Score = 0
	}
	s.Integrity, s.Flags, s.Seen, s.Position, s.Time = p.Flags.Integrity(), p.Flags.String(), f.time, m.Seq, nil
	if p.Time != codec.NoTime {
		t := time.Unix(0, p.Time).UTC()
		s.Time = &t
	}
	if s.keys == nil {
		s.keys, s.covered = make([]string, len(f.rules)), make([]bool, len(f.rules))
		for i, r := range f.rules {
			s.keys[i], s.covered[i] = r.Key(s.Stream)
		}
	}
	f.changed[s.Stream] = true
	return s
}

// updateStream records an event in its stream's latest data.
func (f *Fold) updateStream(e *Event) {
	s := f.streams[e.Key]
	if r := f.rules.byName(e.Rule); s == nil || r != nil && r.By != nil {
		return
	}
	if e.Kind == Cleared {
		delete(s.Alarms, e.Rule)
		f.full = false
	} else {
		if s.Alarms == nil {
			s.Alarms = map[string]string{}
		}
		s.Alarms[e.Rule] = e.Kind
	}
	f.changed[s.Stream] = true
}

// evictStreams removes a sixteenth of the streams.
func (f *Fold) evictStreams() {
	var idle []*Latest
	for _, s := range f.streams {
		if len(s.Alarms) == 0 {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(a, b *Latest) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Stream, b.Stream))
	})
	for _, s := range idle[:min(len(idle), max(1, f.maxStreams/16))] {
		delete(f.streams, s.Stream)
		delete(f.changed, s.Stream)
		f.gone[s.Stream] = true
		for _, r := range f.rules {
			if key, ok := r.Key(s.Stream); ok && r.By == nil {
				delete(f.counters, alarmKey{r.Name, key})
			}
		}
	}
	f.countSeries()
}

// TakeChanges returns the streams that changed since the last call, and the removed streams; at
// most a given number together.
func (f *Fold) TakeChanges(most int) (changed []Latest, gone []string) {
	var names []string
	for name := range f.changed {
		if len(names) == most {
			break
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		delete(f.changed, name)
		s := *f.streams[name]
		s.Alarms = maps.Clone(s.Alarms)
		changed = append(changed, s)
	}
	for name := range f.gone {
		if f.streams[name] == nil && len(changed)+len(gone) >= most {
			break
		}
		delete(f.gone, name)
		if f.streams[name] == nil {
			gone = append(gone, name)
		}
	}
	return changed, gone
}

// TakeChangedNames returns the names of changed and removed streams and resets the changes: another
// process has stored them.
func (f *Fold) TakeChangedNames() map[string]bool {
	names := f.changed
	maps.Copy(names, f.gone)
	f.changed, f.gone = map[string]bool{}, map[string]bool{}
	return names
}

// HasChanges reports whether TakeChanges has results.
func (f *Fold) HasChanges() bool { return len(f.changed)+len(f.gone) > 0 }

// MarkChanged marks a stream as changed because its result from TakeChanges was not stored.
func (f *Fold) MarkChanged(stream string) {
	if f.streams[stream] != nil {
		f.changed[stream] = true
	} else {
		f.gone[stream] = true
	}
}

// MarkAllChanged marks all streams as changed.
func (f *Fold) MarkAllChanged() {
	for name := range f.streams {
		f.changed[name] = true
	}
}

// ReportFull reports once that there are MostStreams streams, all with alarms, so that new streams
// are not judged.
func (f *Fold) ReportFull() bool {
	first := f.full && !f.fullReported
	f.fullReported = f.fullReported || first
	return first
}
