package alarms_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
)

// entry is one that the bucket of the latest had: of which prediction, and when the server
// stored it.
type entry struct {
	position uint64
	stored   time.Time
}

// follow notes all entries of the bucket from now on, by stream, in their order. What it
// returns says what there was so far.
func follow(p *planttest.Plant) func() map[string][]entry {
	ctx := p.T.Context()
	var mu sync.Mutex
	all := map[string][]entry{}
	go func() {
		last := uint64(0)
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) { // again whenever the server was away, or has no bucket yet
			c, err := p.JS.OrderedConsumer(ctx, "KV_EUSN-LATEST", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last + 1})
			if err != nil {
				continue
			}
			it, err := c.Messages()
			if err != nil {
				continue
			}
			for {
				m, err := it.Next(jetstream.NextContext(ctx))
				if err != nil {
					break
				}
				meta, err := m.Metadata()
				if err != nil {
					break
				}
				last = meta.Sequence.Stream
				var l alarm.Latest
				if json.Unmarshal(m.Data(), &l) == nil { // a mark has no entry
					mu.Lock()
					all[l.Stream] = append(all[l.Stream], entry{l.Position, meta.Timestamp})
					mu.Unlock()
				}
			}
			it.Stop()
		}
	}()
	return func() map[string][]entry {
		mu.Lock()
		defer mu.Unlock()
		copied := map[string][]entry{}
		for name, list := range all {
			copied[name] = slices.Clone(list)
		}
		return copied
	}
}

// delays are the times from when a prediction was stored to when the bucket had it, or a
// later one of its stream, by the server's clock: of those that it has had.
func delays(past []alarmtest.Happened, entries map[string][]entry) (all []time.Duration) {
	for _, h := range past {
		for _, e := range entries[h.P.Stream] {
			if e.position >= h.Position {
				all = append(all, e.stored.Sub(h.Stored))
				break
			}
		}
	}
	return all
}

// end is a program that was killed.
type end struct {
	what string
	at   time.Time
}

// after are the times of predictions that waited last after a kill of that program.
func after(what string, ends []end, past []alarmtest.Happened, all []time.Duration) (some []time.Duration) {
	for i, h := range past {
		last := ""
		for _, one := range ends {
			if one.at.Before(h.Stored.Add(all[i])) {
				last = one.what
			}
		}
		if last == what {
			some = append(some, all[i])
		}
	}
	return some
}

// spread is the middle of times, and how far they go.
func spread(all []time.Duration) string {
	sorted := slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration {
		return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %v, 99 %% %v, at most %v", at(.5), at(.99), at(1))
}
