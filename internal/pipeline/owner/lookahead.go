package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// quiet is the time since which a consumer has delivered nothing after message at.
type quiet struct {
	at    uint64
	since time.Time
}

// LookAhead gives up, for a while, partitions whose consumer delivers nothing although
// the input's leader has a message for it. A consumer reads from one server's replica.
// If the replica lags permanently (after a power loss of servers that had not synced),
// or somebody has paused the consumer, the server still sends heartbeats, so the client
// does not recreate the consumer. A reclaimed partition gets a new consumer, perhaps on
// another server.
func (w *InputWatch) LookAhead(ctx context.Context, info *jetstream.StreamInfo, owned map[int]*Ownership) {
	now, asked := map[*Ownership]quiet{}, 0
	for p, t := range owned {
		// In this order: a message that arrives between the two reads counts as
		// waiting.
		at, waiting := t.Input.brought.Load(), t.part.Waiting.Load()
		if !t.reading.Load() || t.failed.Load() || waiting > 0 || at >= info.State.LastSeq {
			continue
		}
		q, before := w.quiet[t]
		if !before || q.at != at {
			q = quiet{at, time.Now()}
		} else if time.Since(q.since) > store.StaleGrace && asked < mostQuestions {
			asked++
			next, err := w.worker.Server.In.Next(ctx, p, at)
			switch {
			case err != nil:
			case next.Seq == 0:
				q.since = time.Now()
			case next.Seq <= info.State.LastSeq && info.TimeStamp.Sub(time.Unix(0, next.Stored)) > store.StaleGrace:
				t.w.Common.StopSharing() // if the common consumer was the cause
				t.Fail(fmt.Errorf("pipeline: the consumer of partition %d delivers nothing, but %s holds message %d for it, stored %s: the partition is claimed again, with a new consumer; if this happens again, look for a replica that is not current, or a paused consumer (nats stream report, nats consumer report %s): %w",
					p, w.worker.Server.In.Name(), next.Seq, wire.CreatedText(time.Unix(0, next.Stored)), w.worker.Server.In.Name(), store.ErrLater))
			}
		}
		now[t] = q
	}
	w.quiet = now
}
