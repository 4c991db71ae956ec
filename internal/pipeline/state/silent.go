package state

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Silence is how long streams may be silent, by their owner's watch. It decides only
// when to ask for the end of a silent stream; the end itself is decided by the log.
type Silence struct {
	Now     time.Duration // by the watch of Message.Heard
	Resumed time.Duration // silence counts from here: earlier messages were not received
	End     time.Duration // the sequence of a stream silent for this long is ended; 0 = never
	Forget  time.Duration // and is forgotten; 0 = never
	Bytes   int           // of an end event at most
}

// Shortest returns the shortest silence that can require an action, 0 = never.
func (s *Silence) Shortest() time.Duration {
	if s.End == 0 {
		return s.Forget
	}
	return s.End
}

// silenceSince returns how long a stream or key last heard at `heard` has been silent.
func (s *Silence) silenceSince(heard time.Duration) time.Duration {
	return s.Now - max(heard, s.Resumed)
}

// SilentStreams returns an end event for the streams that were silent too long.
func (p *Partition) SilentStreams(w Silence) *wire.IdleEvent {
	e := &wire.IdleEvent{Partition: p.ID, After: p.Done}
	room := w.Bytes
	var gaps map[*Source]bool
	for st := range p.Oldest() {
		if len(e.Streams)+len(e.Gaps) >= wire.IdleEntries {
			break
		}
		quiet := w.silenceSince(st.HeardTime)
		if quiet < w.Shortest() {
			break // all further streams were heard later
		}
		src := st.Source
		n := wire.StreamName{Key: src.Key, Stream: st.ID, Forget: w.Forget > 0 && quiet >= w.Forget}
		switch {
		case len(src.Held) > 0:
			if gaps[src] || w.silenceSince(src.HeardTime) < w.Shortest() {
				continue
			}
			n = wire.StreamName{Key: src.Key}
		case !st.Seq.Open() && !n.Forget:
			continue
		}
		if n.Size() > room {
			continue
		}
		room -= n.Size()
		if len(src.Held) == 0 {
			e.Streams = append(e.Streams, n)
			continue
		}
		e.Gaps = append(e.Gaps, src.Key)
		if gaps == nil {
			gaps = map[*Source]bool{}
		}
		gaps[src] = true
	}
	return e
}
