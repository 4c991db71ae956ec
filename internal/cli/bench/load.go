package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
)

// benchLoad publishes messages of drawn samples, as numbered producers taking
// turns.
type benchLoad struct {
	js      jetstream.JetStream
	payload []byte
	sent    int
}

func newBenchLoad(js jetstream.JetStream) (*benchLoad, error) {
	enc, err := codec.NewInputEncoder(stageChannels, codec.InputOptions{})
	if err != nil {
		return nil, err
	}
	payload, err := enc.Encode(&codec.Batch{Rows: stageRows, X: stageSamples(stageRows)})
	return &benchLoad{js: js, payload: slices.Clone(payload)}, err
}

// stageSamples are rows of drawn samples.
func stageSamples(rows int) []float32 {
	rng := rand.New(rand.NewPCG(5, 8))
	x := make([]float32, rows*len(stageChannels))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// next sends one message without waiting for its acknowledgement.
func (l *benchLoad) next() error {
	m := &nats.Msg{Subject: "sensors." + l.key(), Data: l.payload, Header: nats.Header{
		pipeline.HeaderSeq: {strconv.Itoa(l.sent/stageKeys + 1)},
	}}
	l.sent++
	_, err := l.js.PublishMsgAsync(m, jetstream.WithStallWait(stageForever)) // a busy server is no failure
	return err
}

// key is whose turn it is to send.
func (l *benchLoad) key() string { return fmt.Sprintf("s%d", l.sent%stageKeys) }

// burst stores that many messages as fast as the server takes them.
func (l *benchLoad) burst(ctx context.Context, messages int) error {
	for range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.next(); err != nil {
			return fmt.Errorf("bench: publishing: %w", err)
		}
	}
	select {
	case <-l.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stageForever):
		return fmt.Errorf("bench: the server has not acknowledged %d messages", l.js.PublishAsyncPending())
	}
}

// pace sends a message every so often and tells expect when each was due: what
// comes late because the sender was held up counts as late.
func (l *benchLoad) pace(ctx context.Context, messages int, every time.Duration, expect func(key string, due time.Time)) error {
	begin := time.Now()
	for i := range messages {
		due := begin.Add(time.Duration(i) * every)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		expect(l.key(), due)
		if err := l.next(); err != nil {
			return fmt.Errorf("bench: publishing: %w", err)
		}
	}
	return nil
}

// arrivals pairs predictions with the moments their messages were due.
type arrivals struct {
	mu   sync.Mutex
	due  map[string][]time.Time // of each key, those without a prediction yet
	took []arrival
	left int
	all  chan struct{} // closed with the last
}

type arrival struct {
	due time.Time
	ms  float64
}

func (g *arrivals) expect(key string, due time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due[key] = append(g.due[key], due)
}

func (g *arrivals) take(o consumer.Output) error {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range o.Predictions {
		waiting := g.due[p.Stream]
		if len(waiting) == 0 {
			return fmt.Errorf("bench: a prediction of stream %q that nothing was published for", p.Stream)
		}
		g.due[p.Stream] = waiting[1:]
		g.took = append(g.took, arrival{waiting[0], float64(now.Sub(waiting[0])) / float64(time.Millisecond)})
		if g.left--; g.left == 0 {
			close(g.all)
		}
	}
	return nil
}

// sorted are the times in ms, ascending, without those of the warm-up.
func (g *arrivals) sorted(warmUp time.Duration) []float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ms []float64
	var first time.Time
	for _, t := range g.took {
		if first.IsZero() || t.due.Before(first) {
			first = t.due
		}
	}
	for _, t := range g.took {
		if t.due.Sub(first) >= warmUp {
			ms = append(ms, t.ms)
		}
	}
	slices.Sort(ms)
	return ms
}

// quantile of ascending values, the next one above; 0 of nothing.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[max(0, min(len(v)-1, int(math.Ceil(q*float64(len(v))))-1))]
}
