package alarm

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// MostStreams is how many streams a Fold remembers. Beyond that, those are left out
// that had no prediction for longest and have no alarm. If all have one, streams that
// come then are not judged.
const MostStreams = 1 << 20

// Latest is what is known of a stream: its last prediction, and its alarms.
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
	Seen      time.Time `json:"seen"`     // when the server stored the prediction
	Position  uint64    `json:"position"` // of it in the job's output
	// Alarms are those of this stream that are on, raised or acknowledged, by their
	// rules. Alarms of groups of streams are not here.
	Alarms map[string]string `json:"alarms,omitempty"`

	keys    []string // of the alarms of each rule; nil = not yet found out
	covered []bool   // by each rule
}

// see notes a prediction; nil where there are too many streams.
func (f *Fold) see(m *Message, p *codec.Prediction, class string) *Latest {
	s := f.streams[p.Stream]
	if s == nil {
		if len(f.streams) >= f.most && !f.busy {
			f.forget()
		}
		if len(f.streams) >= f.most {
			f.busy = true
			return nil
		}
		s = &Latest{Stream: p.Stream}
		f.streams[p.Stream] = s
	}
	s.Seq, s.Row, s.Class, s.Score, s.Evidence = p.Seq, p.Row, class, p.Score, evidence(p)
	if !finite(p.Score) {
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

// touch notes an event with the stream that it is about.
func (f *Fold) touch(e *Event) {
	s := f.streams[e.Key]
	if r := f.rules.named(e.Rule); s == nil || r != nil && r.By != nil {
		return
	}
	if e.Kind == Cleared {
		delete(s.Alarms, e.Rule)
		f.busy = false
	} else {
		if s.Alarms == nil {
			s.Alarms = map[string]string{}
		}
		s.Alarms[e.Rule] = e.Kind
	}
	f.changed[s.Stream] = true
}

// forget leaves a sixteenth of the streams out.
func (f *Fold) forget() {
	var idle []*Latest
	for _, s := range f.streams {
		if len(s.Alarms) == 0 {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(a, b *Latest) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Stream, b.Stream))
	})
	for _, s := range idle[:min(len(idle), max(1, f.most/16))] {
		delete(f.streams, s.Stream)
		delete(f.changed, s.Stream)
		f.gone[s.Stream] = true
		for _, r := range f.rules {
			if key, ok := r.Key(s.Stream); ok && r.By == nil {
				delete(f.counters, at{r.Name, key})
			}
		}
	}
	f.countSeries()
}

// Changed are the streams about which something else is known than at the last call,
// and those that are known no more: at most so many in all.
func (f *Fold) Changed(most int) (changed []Latest, gone []string) {
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

// TakeChanged are the names of the streams that Changed would tell of, and does not any
// more: somebody else has.
func (f *Fold) TakeChanged() map[string]bool {
	names := f.changed
	maps.Copy(names, f.gone)
	f.changed, f.gone = map[string]bool{}, map[string]bool{}
	return names
}

// HasChanged reports whether Changed has something to say.
func (f *Fold) HasChanged() bool { return len(f.changed)+len(f.gone) > 0 }

// Again names a stream of which was not stored what Changed said: it says so once more.
func (f *Fold) Again(stream string) {
	if f.streams[stream] != nil {
		f.changed[stream] = true
	} else {
		f.gone[stream] = true
	}
}

// AllAgain is Again for all streams that are known.
func (f *Fold) AllAgain() {
	for name := range f.streams {
		f.changed[name] = true
	}
}

// Full reports once that there are MostStreams streams, all with alarms, and that others
// are not judged.
func (f *Fold) Full() bool {
	now := f.busy && !f.said
	f.said = f.said || now
	return now
}
