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

// entry is one entry of the bucket LATEST: the number of its prediction, and the server's time
// of storing.
type entry struct {
	position uint64
	stored   time.Time
}

const bucketStream = "KV_EUSN-LATEST"

// keepAll makes the server keep all entries of the bucket, not only the newest entry per
// stream.
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

// readEntries returns all entries of the bucket by stream, in order.
func readEntries(p *planttest.Plant) map[string][]entry {
	p.T.Helper()
	all := map[string][]entry{}
	c, err := p.JS.OrderedConsumer(p.T.Context(), bucketStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		p.T.Fatal(err)
	}
	stream, err := c.Messages()
	if err != nil {
		p.T.Fatal(err)
	}
	defer stream.Stop()
	for {
		m, err := stream.Next(jetstream.NextMaxWait(planttest.Quiet))
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

// findDelays returns the times from storing a prediction until the bucket has this or a later
// prediction of the stream, by the server's clock.
func findDelays(t *testing.T, past []alarmtest.Entry, entries map[string][]entry) (durations []time.Duration) {
	t.Helper()
	for _, h := range past {
		i := slices.IndexFunc(entries[h.P.Stream], func(e entry) bool { return e.position >= h.Position })
		if i < 0 {
			t.Fatalf("the bucket has never had the prediction of %s in message %d", h.P.Stream, h.Position)
		}
		durations = append(durations, entries[h.P.Stream][i].stored.Sub(h.Stored))
	}
	return durations
}

// kill is a killed program.
type kill struct {
	program string
	name    string // of the process
	time    time.Time
	down    []*span // times without a server
}

// span is a period of time.
type span struct {
	start time.Time
	end   atomic.Pointer[time.Time] // nil: not ended
}

// killServer kills the server, and records the time when it listens.
func (e *kill) killServer(p *planttest.Plant) {
	p.Services["nats"].Kill(false)
	s := &span{start: time.Now()}
	e.down = append(e.down, s)
	go func() {
		for down := false; p.T.Context().Err() == nil; time.Sleep(2 * time.Millisecond) {
			c, err := net.Dial("tcp", "127.0.0.1:"+p.Port)
			if err != nil { // the killed server may listen for a moment
				down = true
				continue
			}
			if c.Close(); down {
				end := time.Now()
				s.end.Store(&end)
				return
			}
		}
	}()
}

// delaysAfter returns the delays of the last predictions after a kill of a program, and these
// delays without the times without a server.
func delaysAfter(program string, ends []kill, past []alarmtest.Entry, durations []time.Duration) (affected, up []time.Duration) {
	served := subtract(serverAway(ends), past, durations)
	for i, h := range past {
		until := h.Stored.Add(durations[i])
		last := slices.IndexFunc(ends, func(e kill) bool { return e.time.After(until) }) - 1
		if last == -2 {
			last = len(ends) - 1
		}
		if last >= 0 && ends[last].program == program {
			affected, up = append(affected, durations[i]), append(up, served[i])
		}
	}
	return affected, up
}

// times are pairs of start and end.
type times [][2]time.Time

// serverAway returns the times without a server.
func serverAway(ends []kill) (result times) {
	for _, e := range ends {
		for _, d := range e.down {
			if end := d.end.Load(); end != nil {
				result = append(result, [2]time.Time{d.start, *end})
			}
		}
	}
	return result
}

// unkept returns the times before either alarm process had restarted.
func unkept(ends []kill) (all times) {
	for i, e := range ends {
		for _, previous := range ends[:i] {
			start, end := maxTime(e.time, previous.time), minTime(e.time, previous.time).Add(planttest.Restarting)
			if e.name != previous.name && strings.HasPrefix(e.name, "alarms-") && strings.HasPrefix(previous.name, "alarms-") && start.Before(end) {
				all = append(all, [2]time.Time{start, end})
			}
		}
	}
	return all
}

// subtract subtracts given times from the delays of predictions.
func subtract(away times, past []alarmtest.Entry, durations []time.Duration) []time.Duration {
	slices.SortFunc(away, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	result := slices.Clone(durations)
	for i, h := range past {
		start := h.Stored
		for _, a := range away {
			start = maxTime(start, a[0])
			end := minTime(h.Stored.Add(durations[i]), a[1])
			if end.After(start) {
				result[i] -= end.Sub(start)
				start = end
			}
		}
	}
	return result
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

// summarize returns the median and the range of times.
func summarize(durations []time.Duration) string {
	sorted := slices.Sorted(slices.Values(durations))
	at := func(q float64) time.Duration {
		return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("median %v, 99 %% %v, at most %v", at(.5), at(.99), at(1))
}
