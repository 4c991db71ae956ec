package alarms_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// entry is one that the bucket of the latest had: of which prediction, and when the server
// stored it.
type entry struct {
	position uint64
	stored   time.Time
}

const bucketStream = "KV_EUSN-LATEST"

// keepAll has the server keep all entries of the bucket, not the last one of each stream.
func keepAll(p *planttest.Plant) {
	p.T.Helper()
	p.Await("the bucket", func() bool {
		s, err := p.JS.Stream(p.T.Context(), bucketStream)
		if err != nil {
			return false
		}
		cfg := s.CachedInfo().Config
		cfg.MaxMsgsPerSubject = 1_000_000
		_, err = p.JS.UpdateStream(p.T.Context(), cfg)
		return err == nil
	})
}

// entries are those that the bucket has had, by stream, in their order.
func entries(p *planttest.Plant) map[string][]entry {
	p.T.Helper()
	all := map[string][]entry{}
	c, err := p.JS.OrderedConsumer(p.T.Context(), bucketStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		p.T.Fatal(err)
	}
	it, err := c.Messages()
	if err != nil {
		p.T.Fatal(err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextMaxWait(planttest.Quiet))
		if err != nil {
			p.T.Fatal(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			p.T.Fatal(err)
		}
		var l alarm.Latest
		if json.Unmarshal(m.Data(), &l) == nil { // a mark has no entry
			all[l.Stream] = append(all[l.Stream], entry{l.Position, meta.Timestamp})
		}
		if meta.NumPending == 0 {
			return all
		}
	}
}

// delays are the times from when a prediction was stored to when the bucket had it, or a
// later one of its stream, by the server's clock.
func delays(t *testing.T, past []alarmtest.Entry, entries map[string][]entry) (all []time.Duration) {
	t.Helper()
	for _, h := range past {
		i := slices.IndexFunc(entries[h.P.Stream], func(e entry) bool { return e.position >= h.Position })
		if i < 0 {
			t.Fatalf("the bucket has never had the prediction of %s in message %d", h.P.Stream, h.Position)
		}
		all = append(all, entries[h.P.Stream][i].stored.Sub(h.Stored))
	}
	return all
}

// end is a program that was killed.
type end struct {
	what string
	name string // of the process
	at   time.Time
	down []*span // when there was no server
}

// span is a time.
type span struct {
	from time.Time
	to   atomic.Pointer[time.Time] // nil: it lasts
}

// again kills the server, and notes when it listens again.
func (e *end) again(p *planttest.Plant) {
	p.Services["nats"].Kill(false)
	s := &span{from: time.Now()}
	e.down = append(e.down, s)
	go func() {
		for away := false; p.T.Context().Err() == nil; time.Sleep(2 * time.Millisecond) {
			c, err := net.Dial("tcp", "127.0.0.1:"+p.Port)
			if err != nil { // the one that was killed may listen for a moment
				away = true
				continue
			}
			if c.Close(); away {
				to := time.Now()
				s.to.Store(&to)
				return
			}
		}
	}()
}

// after are the times of predictions that waited last after a kill of that program, and
// those times without that in which there was no server.
func after(what string, ends []end, past []alarmtest.Entry, all []time.Duration) (some, up []time.Duration) {
	served := without(serverAway(ends), past, all)
	for i, h := range past {
		until := h.Stored.Add(all[i])
		last := slices.IndexFunc(ends, func(e end) bool { return e.at.After(until) }) - 1
		if last == -2 {
			last = len(ends) - 1
		}
		if last >= 0 && ends[last].what == what {
			some, up = append(some, all[i]), append(up, served[i])
		}
	}
	return some, up
}

// times are from when to when.
type times [][2]time.Time

// serverAway are the times in which there was no server.
func serverAway(ends []end) (all times) {
	for _, e := range ends {
		for _, d := range e.down {
			if to := d.to.Load(); to != nil {
				all = append(all, [2]time.Time{d.from, *to})
			}
		}
	}
	return all
}

// unkept are the times in which neither process of alarms had been started again.
func unkept(ends []end) (all times) {
	for i, e := range ends {
		for _, other := range ends[:i] {
			from, to := maxTime(e.at, other.at), minTime(e.at, other.at).Add(planttest.Restarting)
			if e.name != other.name && strings.HasPrefix(e.name, "alarms-") && strings.HasPrefix(other.name, "alarms-") && from.Before(to) {
				all = append(all, [2]time.Time{from, to})
			}
		}
	}
	return all
}

// without are times of predictions without those in which something was away.
func without(away times, past []alarmtest.Entry, all []time.Duration) []time.Duration {
	slices.SortFunc(away, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	rest := slices.Clone(all)
	for i, h := range past {
		from := h.Stored
		for _, a := range away {
			from = maxTime(from, a[0])
			to := minTime(h.Stored.Add(all[i]), a[1])
			if to.After(from) {
				rest[i] -= to.Sub(from)
				from = to
			}
		}
	}
	return rest
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// spread is the middle of times, and how far they go.
func spread(all []time.Duration) string {
	sorted := slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration {
		return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %v, 99 %% %v, at most %v", at(.5), at(.99), at(1))
}
