package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	// askAgain is when an end event that has not come back is given up for
	// lost.
	askAgain = 2 * commitTimeout
	// idleParts is into how many parts the shortest limit is divided to look
	// for silent streams.
	idleParts = 8
)

// watch is a partition's time, which passes with ticks and so only while the
// worker hears from the server and keeps up with its input. It decides when to
// ask for the end of a silent stream, never that it ends: that is the log's.
// None of it is state.
type watch struct {
	now     time.Duration // at the last tick, since the shard began
	resumed time.Duration // silence counts from here: what was before, nobody listened to
	looked  time.Duration // when silent streams were last looked for
	asked   time.Duration // when the end event under way was published; 0 = none is
}

// silence is how long a stream or key last heard then has said nothing.
func (w *watch) silence(heard time.Duration) time.Duration { return w.now - max(heard, w.resumed) }

// observe lets a partition's time pass and asks for the end of what has been
// silent too long.
func (s *shard) observe(p *partition) error {
	limit := s.shortest()
	if limit == 0 || p.done < p.replayTo || p.skip > 0 {
		return nil
	}
	now, w := time.Since(s.began), &p.watch
	if w.now == 0 || now-w.now > s.lease { // just begun, or the server was away, or this worker was
		w.resumed = now
	}
	w.now = now
	if w.asked > 0 && now-w.asked < askAgain || now-w.looked < limit/idleParts {
		return nil
	}
	if w.asked > 0 {
		s.warn("end event of silent streams has not come back, asking again: may the stage publish to the input, and has the input room?", "partition", p.id)
	}
	w.looked, w.asked = now, 0
	e := s.silent(p)
	if e.Empty() {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("pipeline: end event: %w", err)
	}
	w.asked = now
	// What becomes of it shows when it comes back. An answer is not awaited.
	if _, err := p.tenure.js.PublishMsgAsync(idleMessage(p.tenure.cfg, p.id, data), jetstream.WithRetryAttempts(0)); err != nil {
		w.asked = 0
		s.log.Debug("end event not published", "partition", p.id, "err", err)
	}
	return nil
}

// shortest is the silence from which on there may be something to do, 0 if
// there never is.
func (s *shard) shortest() time.Duration {
	if s.idle == 0 {
		return s.forget
	}
	return s.idle
}

// silent collects what has been silent too long.
func (s *shard) silent(p *partition) *wire.IdleEvent {
	e := &wire.IdleEvent{Partition: p.id, After: p.done}
	room := s.idleBytes
	var gaps map[*source]bool
	for el := p.recency.Back(); el != nil && len(e.Streams)+len(e.Gaps) < wire.IdleEntries; el = el.Prev() {
		st := el.Value.(*stream)
		quiet := p.watch.silence(st.heardTime)
		if quiet < s.shortest() {
			break // the others were heard later
		}
		src := st.source
		n := wire.StreamName{Key: src.key, Stream: st.id, Forget: s.forget > 0 && quiet >= s.forget}
		switch {
		case len(src.held) > 0:
			if gaps[src] || p.watch.silence(src.heardTime) < s.shortest() {
				continue
			}
			n = wire.StreamName{Key: src.key}
		case !st.seq.Open() && !n.Forget:
			continue
		}
		if n.Size() > room {
			continue
		}
		room -= n.Size()
		if len(src.held) == 0 {
			e.Streams = append(e.Streams, n)
			continue
		}
		e.Gaps = append(e.Gaps, src.key)
		if gaps == nil {
			gaps = map[*source]bool{}
		}
		gaps[src] = true
	}
	return e
}

// idleMessage is an end event for a partition, on its way to the input.
func idleMessage(c Config, part int, data []byte) *nats.Msg {
	return &nats.Msg{
		Subject: strings.TrimSuffix(c.InputSubject, "*") + wire.IdleKey(part, c.Partitions),
		Header:  nats.Header{wire.HeaderKind: {wire.KindIdle}}, Data: data,
	}
}
