package values

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// rig is a server with the input of a job, and a gateway of single values.
type rig struct {
	t      *testing.T
	nc     *nats.Conn
	js     jetstream.JetStream
	in     jetstream.Stream
	dir    string
	change func(*gateway.Config)

	*gateway.Gateway
	end func()
}

func newRig(t *testing.T, change func(*gateway.Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), change: change}
	r.nc, r.js = pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	r.limitInput(-1)
	if _, err := r.js.Publish(t.Context(), "sensors.other", nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// limitInput limits the number of messages in the input.
func (r *rig) limitInput(n int64) {
	r.t.Helper()
	var err error
	r.in, err = r.js.CreateOrUpdateStream(r.t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew, MaxMsgs: n,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.{{partition(4,1)}}.{{wildcard(1)}}"}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) startGateway(period time.Duration) {
	r.t.Helper()
	schema := codec.Schema{Channels: []string{"x", "y"}}
	named, err := formats.NewNamed(formats.Input{}, schema)
	if err != nil {
		r.t.Fatal(err)
	}
	c := gateway.Config{Channels: schema.Channels, Values: New(named, 2, period), Dir: r.dir, Latency: time.Millisecond, StopTimeout: 50 * time.Millisecond}
	if r.change != nil {
		r.change(&c)
	}
	if r.Gateway, err = gateway.New(r.nc, c); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	ended := false
	r.end = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				r.t.Error(err)
			}
		}
	}
	r.t.Cleanup(r.end)
}

// killGateway restarts the gateway with the files of a killed gateway.
func (r *rig) killGateway() {
	r.t.Helper()
	killed := filepath.Join(r.t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	r.end()
	r.dir = killed
	r.startGateway(0)
}

// send sends a value as a request with an idempotency key, or as its repetition, and
// returns the answer: ErrHeldBack if there is none within wait.
func (r *rig) send(id uint64, channel string, value int, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(r.t.Context(), wait)
	defer cancel()
	stored := make(chan error, 1)
	err := r.Take(ctx, &gateway.Message{Input: gateway.HTTP, Key: "p/" + channel, Payload: fmt.Append(nil, value),
		Session: gateway.HTTPSession, ID: id, Repeat: true, Done: func(err error) { stored <- err }})
	if err != nil {
		return err
	}
	select {
	case err = <-stored:
		return err
	case <-ctx.Done():
		return gateway.ErrHeldBack
	}
}

func (r *rig) store(id uint64, channel string, value int) {
	r.t.Helper()
	if err := r.send(id, channel, value, pipelinetest.Patience); err != nil {
		r.t.Fatalf("%s = %d: %v", channel, value, err)
	}
}

// hold sends a value that is not acknowledged now.
func (r *rig) hold(id uint64, channel string, value int) {
	r.t.Helper()
	if err := r.send(id, channel, value, 100*time.Millisecond); !errors.Is(err, gateway.ErrHeldBack) {
		r.t.Fatalf("%s = %d: %v, want no answer", channel, value, err)
	}
}

// messages returns the messages of the gateway in the input.
func (r *rig) messages() (all [][]byte) {
	r.t.Helper()
	info, err := r.in.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := uint64(2); seq <= info.State.LastSeq; seq++ {
		m, err := r.in.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m.Data)
	}
	return all
}

// expect compares the stored samples of the stream.
func (r *rig) expect(want string) {
	r.t.Helper()
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"x", "y"}})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []float32
	for _, data := range r.messages() {
		var b codec.Batch
		if err := dec.Decode(data, &b); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, b.X...)
	}
	if got := fmt.Sprint(all); got != want {
		r.t.Errorf("stored %s, want %s", got, want)
	}
}

// A repeated value does not count twice: neither a value with a waiting sample, nor a
// value of an incomplete sample.
func TestRepeatedValue(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.startGateway(0)
	r.limitInput(1)
	r.store(1, "x", 1)
	r.store(1, "x", 1)
	r.hold(2, "y", 10)
	r.hold(2, "y", 10)
	r.limitInput(-1)
	r.store(2, "y", 10)
	r.store(3, "x", 2)
	r.store(3, "x", 2)
	r.store(4, "y", 20)
	r.store(3, "x", 2)
	r.expect("[1 10 2 20]")
	if s := r.Stats(); s.Messages["http"] != 4 || s.Repeats != 5 {
		t.Errorf("%+v: want 4 messages and 5 repeats", s)
	}
}

// A value that the gateway has no room for does not lose the earlier values of its sample.
func TestValueWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *gateway.Config) { c.OutboxBytes = 1 })
	r.startGateway(0)
	r.limitInput(1)
	r.store(1, "x", 1)
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	if err := r.Take(ctx, &gateway.Message{Input: gateway.OPCUA, Payload: []byte{1}, Parts: []gateway.Part{{Key: "full", X: []float32{5, 6}}}}); err != nil {
		t.Fatal(err)
	}
	r.hold(2, "y", 10)
	r.limitInput(-1)
	r.store(2, "y", 10)
	r.store(3, "x", 2)
	r.store(4, "y", 20)
	r.expect("[5 6 1 10 2 20]")
}

// A killed gateway recognizes the values of complete samples, and loses the values of the
// incomplete sample: their repetitions are new.
func TestValuesOfKilledGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.startGateway(0)
	r.limitInput(1)
	r.store(1, "x", 1)
	r.hold(2, "y", 10)
	r.store(3, "x", 2)
	r.hold(4, "x", 3)
	for end := time.Now().Add(pipelinetest.Patience); r.Stats().Waiting < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v: want two batches in the outbox", r.Stats())
		}
	}
	r.killGateway()
	r.limitInput(-1)
	r.store(1, "x", 1)
	r.store(3, "x", 2)
	r.store(4, "x", 3)
	r.store(5, "y", 30)
	r.expect("[1 10 2 10 3 30]")
}

// A repeated value is recognized, also if the value completed the samples of several messages.
func TestRepeatedValueWithPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *gateway.Config) { c.MaxMessage = 8 << 10 })
	r.startGateway(time.Millisecond)
	r.store(1, "x", 1)
	r.store(2, "y", 10)
	time.Sleep(600 * time.Millisecond) // more than two parts of 256 samples
	r.store(3, "x", 2)
	samples := r.Stats().Samples
	r.store(3, "x", 2)
	if s := r.Stats(); samples <= 512 || s.Samples != samples || s.Repeats != 1 {
		t.Errorf("%d samples, then %+v: want more than 512, then one repeat without a sample", samples, s)
	}
	for _, data := range r.messages() {
		if len(data) > 4<<10 { // the headers have as much
			t.Errorf("a message has %d bytes, want at most %d", len(data), 4<<10)
		}
	}
}
