package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// plain reads "x y;x y": rows of two values. A row may begin with "key=".
type plain struct{}

func (plain) Decode(p []byte) ([]Part, error) {
	var parts []Part
	for row := range strings.SplitSeq(strings.TrimSpace(string(p)), ";") {
		key, rest, named := strings.Cut(row, "=")
		if !named {
			key, rest = "", row
		}
		words := strings.Fields(rest)
		if len(words) != 2 {
			return nil, fmt.Errorf("%q: want two numbers", row)
		}
		if len(parts) == 0 || parts[len(parts)-1].Key != key {
			parts = append(parts, Part{Key: key})
		}
		at := &parts[len(parts)-1]
		for _, w := range words {
			x, err := strconv.ParseFloat(w, 32)
			if err != nil {
				return nil, err
			}
			at.X = append(at.X, float32(x))
		}
	}
	return parts, nil
}

// rig is a server with a job's input.
type rig struct {
	t  testing.TB
	nc *nats.Conn
	js jetstream.JetStream
	in jetstream.Stream
}

func newRig(t testing.TB, limit func(*jetstream.StreamConfig)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.nc, r.js = pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew, Duplicates: 200 * time.Millisecond,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.{{partition(4,1)}}.{{wildcard(1)}}"}}
	if limit != nil {
		limit(&c)
	}
	r.makeStream(c)
	return r
}

func (r *rig) makeStream(c jetstream.StreamConfig) {
	r.t.Helper()
	var err error
	if r.in, err = r.js.CreateOrUpdateStream(r.t.Context(), c); err != nil {
		r.t.Fatal(err)
	}
}

// limitInput changes how many messages the input takes.
func (r *rig) limitInput(n int64) {
	r.t.Helper()
	c := r.in.CachedInfo().Config
	c.MaxMsgs = n
	r.makeStream(c)
}

// running is a gateway in operation.
type running struct {
	*Gateway
	stop context.CancelFunc
	done chan error
	book *pipelinetest.LogBook
}

func (r *rig) startGateway(dir string, change func(*Config)) *running {
	r.t.Helper()
	book := &pipelinetest.LogBook{}
	c := Config{Channels: []string{"x", "y"}, Decoder: plain{}, Lines: plain{}, Dir: dir, Latency: 2 * time.Millisecond, StopTimeout: pipelinetest.Patience, Log: book.Logger()}
	if change != nil {
		change(&c)
	}
	g, err := New(r.nc, c)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{g, cancel, make(chan error, 1), book}
	go func() { run.done <- g.Run(ctx) }()
	r.t.Cleanup(func() { run.endGateway(r.t) })
	return run
}

func (r *running) endGateway(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		if err != nil {
			t.Error(err)
		}
		r.done <- nil
	case <-time.After(pipelinetest.Patience):
		t.Fatal("the gateway does not end")
	}
}

// waitForLog waits until the log has a text.
func (r *running) waitForLog(t testing.TB, text string) {
	t.Helper()
	for end := time.Now().Add(pipelinetest.Patience); r.book.Lines(text) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not say %q:\n%s", text, r.book)
		}
	}
}

// sendMessage sends a message and returns when it is stored, or with the error.
func (r *running) sendMessage(ctx context.Context, m Message) error {
	stored := make(chan error, 1)
	m.Done = func(err error) { stored <- err }
	if err := r.Take(ctx, &m); err != nil {
		return err
	}
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// storedSamples reads the input's samples by key, as the stage would: repeats by number
// are dropped. It fails if numbers have gaps or incarnations change.
func (r *rig) storedSamples() map[string][]float32 {
	r.t.Helper()
	all := map[string][]float32{}
	last := map[string]uint64{}
	incarnation := map[string]string{}
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"x", "y"}})
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := r.in.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := r.in.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		key := m.Subject[strings.LastIndex(m.Subject, ".")+1:]
		n, err := strconv.ParseUint(m.Header.Get(wire.HeaderSeq), 10, 64)
		if err != nil || m.Header.Get(wire.HeaderCRC) != fmt.Sprintf("%08x", wire.CRC(m.Data)) {
			r.t.Fatalf("message %d: headers %v", seq, m.Header)
		}
		if inc := m.Header.Get(wire.HeaderIncarnation); incarnation[key] != inc {
			if incarnation[key] != "" {
				r.t.Errorf("message %d of %s: another incarnation: the stage would say gap", seq, key)
			}
			incarnation[key] = inc
		}
		if n <= last[key] {
			continue
		}
		if n != last[key]+1 {
			r.t.Errorf("message %d of %s has number %d after %d", seq, key, n, last[key])
		}
		last[key] = n
		var b codec.Batch
		if err := dec.Decode(m.Data, &b); err != nil {
			all[key+"!"] = append(all[key+"!"], float32(len(m.Data)))
			continue
		}
		all[key] = append(all[key], b.X...)
	}
	return all
}

// Samples arrive once, in order, in batches, and Done comes after their storage.
func TestStoredOnceInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	var all sync.WaitGroup
	const keys, each = 10, 200
	for k := range keys {
		all.Go(func() {
			var wait sync.WaitGroup
			for i := range each {
				wait.Add(1)
				m := &Message{Input: MQTT, Key: fmt.Sprint("a/", k), Payload: fmt.Append(nil, i, " ", k), Done: func(err error) {
					if err != nil {
						t.Error(err)
					}
					wait.Done()
				}}
				if err := g.Take(ctx, m); err != nil {
					t.Error(err)
					wait.Done()
				}
			}
			wait.Wait()
		})
	}
	all.Wait()
	info, err := r.in.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := g.Stats(); s.Samples != keys*each || s.Messages["mqtt"] != keys*each || s.Batches != info.State.Msgs || info.State.Msgs >= keys*each {
		t.Errorf("%+v, and %d messages in the input: nothing was batched", s, info.State.Msgs)
	}
	got := r.storedSamples()
	for k := range keys {
		x := got[fmt.Sprint("a/", k)]
		if len(x) != 2*each {
			t.Fatalf("key %d has %d values, want %d", k, len(x), 2*each)
		}
		for i := range each {
			if x[2*i] != float32(i) || x[2*i+1] != float32(k) {
				t.Fatalf("key %d, row %d: %v", k, i, x[2*i:2*i+2])
			}
		}
	}
}

// While the input is full, nothing is acknowledged, and everything is stored when there
// is room, in order. The log names the reason.
func TestHoldsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 })
	g := r.startGateway(t.TempDir(), func(c *Config) { c.Rows = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	var mu sync.Mutex
	acked := 0
	var all sync.WaitGroup
	for i := range 40 {
		all.Add(1)
		m := &Message{Input: MQTT, Key: fmt.Sprint(i % 4), Payload: fmt.Append(nil, i, " 0"), Done: func(error) {
			mu.Lock()
			acked++
			mu.Unlock()
			all.Done()
		}}
		if err := g.Take(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	g.waitForLog(t, "the job's input is full")
	mu.Lock()
	if acked > 3 {
		t.Errorf("%d messages acknowledged, and the input took 3", acked)
	}
	mu.Unlock()
	if !g.Stats().HoldingBack {
		t.Error("the counters do not say that it holds back")
	}
	r.limitInput(-1)
	all.Wait()
	for k, x := range r.storedSamples() {
		if len(x) != 20 {
			t.Errorf("key %s has %d values, want 20", k, len(x))
		}
		for i := 0; i < len(x); i += 2 {
			if want := fmt.Sprint(2*i + int(x[0])); fmt.Sprint(x[i]) != want {
				t.Errorf("key %s: %v, want %s", k, x[i], want)
			}
		}
	}
	g.waitForLog(t, "takes messages again")
}

// A gateway that ends while the input is full leaves its batches, with their numbers,
// to the next run. A resent message is recognized; a message unknown to the outbox is
// new.
func TestNextRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 })
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	message := func(i int, repeat bool) Message {
		return Message{Input: MQTT, Key: "k", Payload: fmt.Append(nil, i, " 0"), Session: "mqtt:d", ID: uint64(i), Repeat: repeat}
	}
	for life := range 4 {
		g := r.startGateway(dir, func(c *Config) { c.Rows, c.StopTimeout = 1, 50*time.Millisecond })
		for i := 5 * life; i < 5*life+5; i++ {
			m := message(i, false)
			m.Done = func(error) {}
			if err := g.Take(ctx, &m); err != nil {
				t.Fatal(err)
			}
		}
		g.waitForLog(t, "the job's input is full")
		g.endGateway(t)
		g.waitForLog(t, "the next run publishes")
	}
	r.limitInput(-1)
	time.Sleep(250 * time.Millisecond) // the server has forgotten the ids of messages: only the numbers identify repeats
	g := r.startGateway(dir, nil)
	for i := range 21 {
		if err := g.sendMessage(ctx, message(i, true)); err != nil {
			t.Fatal(err)
		}
	}
	x := r.storedSamples()["k"]
	if len(x) != 42 {
		t.Fatalf("%v: want 0 to 20 once", x)
	}
	for i := range 21 {
		if x[2*i] != float32(i) {
			t.Fatalf("%v: want 0 to 20 in order", x)
		}
	}
	if s := g.Stats(); s.Repeats != 20 || s.Messages["mqtt"] != 1 {
		t.Errorf("%+v: want 20 repeats and one new message", s)
	}
}

// A device's first message, unanswered when the gateway ended: the next run stores it
// before the device has connected and resends it. The device was not answered, so the
// repeat cannot be a later message with the same id.
func TestFirstMessageOfTheRunBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	if _, err := r.js.Publish(t.Context(), "sensors.other", nil); err != nil { // it is full
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: MQTT, Key: "k", Payload: []byte("1 1"), Session: "mqtt:d", ID: 1, Done: func(error) { t.Error("told") }}
	g := r.startGateway(dir, func(c *Config) { c.StopTimeout = 50 * time.Millisecond })
	if err := g.Take(ctx, &m); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	g.endGateway(t)
	r.limitInput(-1)
	g = r.startGateway(dir, nil)
	for there := uint64(0); there < 2 || g.Stats().Waiting > 0; time.Sleep(time.Millisecond) {
		info, err := r.in.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		there = info.State.Msgs
	}
	m.Repeat = true
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	if s := g.Stats(); s.Repeats != 1 || s.Messages["mqtt"] != 0 {
		t.Errorf("%+v: want one repeat and no new message", s)
	}
}

// A power loss may leave an outbox with a waiting message that was stored long ago,
// followed by later messages. The message is not republished, and a new incarnation
// follows the last message in the input.
func TestOldOutbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 })
	dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	g := r.startGateway(dir, nil)
	send := func(i int) {
		t.Helper()
		if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "k", Payload: fmt.Append(nil, i, " 0")}); err != nil {
			t.Fatal(err)
		}
	}
	send(0)
	send(1)
	if err := g.Take(ctx, &Message{Input: MQTT, Key: "k", Payload: []byte("2 0")}); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r.limitInput(-1)
	for i := 3; i < 8; i++ {
		send(i)
	}
	g.endGateway(t)
	time.Sleep(250 * time.Millisecond) // the server has forgotten the ids of messages
	g = r.startGateway(old, nil)
	for i := 8; i < 12; i++ {
		send(i)
	}
	if got, want := r.storedNumbers(), []string{"k 0 1", "k 0 2", "k 0 3", "k 0 4", "k 0 5", "k 0 6", "k 0 7", "k 0 8", "k 1 1", "k 1 2", "k 1 3", "k 1 4"}; !slices.Equal(got, want) {
		t.Errorf("keys, incarnations and numbers are %q, want %q", got, want)
	}
}

// An outbox with a lost end has also lost the messages for recognizing repeats. Later
// messages get a new incarnation: for the stream with the missing end, or for all
// streams after a damaged record, because the record's stream is unknown.
func TestOutboxLosesItsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(b []byte, whole int) []byte
		want   []string
	}{
		{"cut", func(b []byte, whole int) []byte { return b[:whole] }, []string{"a 0 1", "b 0 1", "a 0 2", "a 1 1", "b 0 2"}},
		{"damaged", func(b []byte, whole int) []byte { b[whole+20] ^= 1; return b }, []string{"a 0 1", "b 0 1", "a 0 2", "a 1 1", "b 1 1"}},
		{"zeros", func(b []byte, whole int) []byte { clear(b[whole:]); return b }, []string{"a 0 1", "b 0 1", "a 0 2", "a 1 1", "b 1 1"}},
	} {
		r := newRig(t, nil)
		dir, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
		ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
		defer cancel()
		g := r.startGateway(dir, nil)
		send := func(keys ...string) {
			t.Helper()
			for _, key := range keys {
				if err := g.sendMessage(ctx, Message{Input: HTTP, Key: key, Payload: []byte("1 1")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		send("a", "b")
		newest := filepath.Join(dir, "outbox-2")
		before, err := os.Stat(newest)
		if err != nil {
			t.Fatal(err)
		}
		send("a")
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		g.endGateway(t)
		newest = filepath.Join(killed, "outbox-2")
		b, err := os.ReadFile(newest)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(newest, c.damage(b, int(before.Size())), 0o600); err != nil {
			t.Fatal(err)
		}
		g = r.startGateway(killed, nil)
		send("a", "b")
		if got := r.storedNumbers(); !slices.Equal(got, c.want) {
			t.Errorf("%s: keys, incarnations and numbers are %q, want %q", c.name, got, c.want)
		}
		g.waitForLog(t, "the outbox")
		g.endGateway(t)
	}
}

// storedNumbers lists the messages in the input: the key, its incarnation, and the
// number.
func (r *rig) storedNumbers() []string {
	r.t.Helper()
	var all []string
	incarnations := map[string][]string{}
	info, err := r.in.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := r.in.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		key, inc := m.Subject[strings.LastIndex(m.Subject, ".")+1:], m.Header.Get(wire.HeaderIncarnation)
		if !slices.Contains(incarnations[key], inc) {
			incarnations[key] = append(incarnations[key], inc)
		}
		all = append(all, fmt.Sprint(key, " ", slices.Index(incarnations[key], inc), " ", m.Header.Get(wire.HeaderSeq)))
	}
	return all
}

// Unanswered messages of devices are on the disk soon, whether or not the server
// answers.
func TestWaitsOnTheDisk(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{false, true} {
		r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
		defer cancel()
		g := r.startGateway(dir, func(c *Config) { c.StopTimeout = 50 * time.Millisecond })
		if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "k", Payload: []byte("0 0")}); err != nil {
			t.Fatal(err)
		}
		take := func(i int) {
			t.Helper()
			if err := g.Take(ctx, &Message{Input: MQTT, Key: "k", Payload: fmt.Append(nil, i, " 0")}); err != nil {
				t.Fatal(err)
			}
		}
		take(1)
		g.waitForLog(t, "the job's input is full")
		take(2)
		take(3)
		if !stop { // killed: the next run has only the disk
			for end := time.Now().Add(pipelinetest.Patience); g.Stats().Waiting < 2; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%+v: want two batches in the outbox", g.Stats())
				}
			}
			killed := filepath.Join(t.TempDir(), "killed")
			if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			dir = killed
		}
		g.endGateway(t)
		r.limitInput(-1)
		g = r.startGateway(dir, nil)
		if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "k", Payload: []byte("4 0")}); err != nil {
			t.Fatal(err)
		}
		if x := r.storedSamples()["k"]; !slices.Equal(x, []float32{0, 0, 1, 0, 2, 0, 3, 0, 4, 0}) {
			t.Errorf("stopped %v: %v, want 0 to 4", stop, x)
		}
	}
}

// A message is a repeat only if nothing else can be meant.
func TestRepeats(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	send := func(id int, payload string, repeat bool, samples int) {
		t.Helper()
		if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "k", Payload: []byte(payload), Session: "mqtt:d", ID: uint64(id), Repeat: repeat}); err != nil {
			t.Fatal(err)
		}
		if got := len(r.storedSamples()["k"]) / 2; got != samples {
			t.Errorf("id %d, %q, repeat %v: %d samples, want %d", id, payload, repeat, got, samples)
		}
	}
	send(1, "1 1", false, 1)
	send(1, "1 1", true, 2) // the only id so far: the device may use no other, and this may be a later message
	send(2, "1 1", false, 3)
	send(2, "1 1", true, 3) // the device uses more ids
	send(1, "1 1", true, 3)
	send(3, "1 1", true, 4)  // another id
	send(1, "1 2", true, 5)  // another content: the id was reused
	send(1, "1 2", true, 6)  // from then on an acknowledged message proves nothing
	g.Forget(ctx, "mqtt:d")  // a new session
	send(2, "1 1", true, 7)  // no message of the old session repeats
	send(3, "1 1", false, 8) // but of the new session
	send(2, "1 1", true, 8)
	send(4, "1 1", false, 9) // not marked as a repeat
	send(4, "1 1", false, 10)
	g.Forget(ctx, "mqtt:d") // a device that always uses id 1, with one content
	for i := range 3 {
		send(1, "1 1", false, 11+2*i)
		send(1, "1 1", true, 12+2*i) // rather doubled than lost
	}
}

// An idempotency key identifies one content.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: HTTP, Key: "k", Payload: []byte("1 1"), Session: HTTPSession, ID: 7, Repeat: true}
	g := r.startGateway(dir, nil)
	if err := errors.Join(g.sendMessage(ctx, m), g.sendMessage(ctx, m)); err != nil {
		t.Fatal(err)
	}
	g.endGateway(t)
	g = r.startGateway(dir, nil)
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	m.Payload = []byte("2 2")
	pipelinetest.Mentions(t, g.sendMessage(ctx, m), "used for another content")
	if x := r.storedSamples()["k"]; len(x) != 2 {
		t.Errorf("%v: want one row", x)
	}
}

// An unreadable payload is marked, also by the next run, and the device is answered
// when the payload is stored, and once more after a repeat.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: HTTP, Key: "k", Payload: []byte("nonsense"), Session: HTTPSession, ID: 1, Repeat: true}
	g := r.startGateway(dir, func(c *Config) { c.StopTimeout = 50 * time.Millisecond })
	if err := g.sendMessage(ctx, Message{Input: HTTP, Key: "k", Payload: []byte("1 1")}); err != nil {
		t.Fatal(err)
	}
	waits := m
	waits.Done = func(error) {}
	if err := g.Take(ctx, &waits); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	g.endGateway(t)
	r.limitInput(-1)
	g = r.startGateway(dir, nil)
	for range 2 {
		err := g.sendMessage(ctx, m)
		if unreadable := new(Unreadable); !errors.As(err, &unreadable) || !strings.Contains(unreadable.Why, "want two numbers") {
			t.Errorf("%v, want the decoder's words", err)
		}
	}
	last, err := r.in.GetLastMsgForSubject(ctx, "eusn.in.*.k")
	if err != nil || last.Sequence != 2 || string(last.Data) != "nonsense" || !strings.Contains(last.Header.Get(wire.HeaderUnreadable), "want two numbers") {
		t.Errorf("%+v, %v: want the payload once, with the reason", last, err)
	}
}

// A sample that the stage may refuse shares no message with other samples.
func TestBadSamplesAreAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), func(c *Config) { c.Latency = 50 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range []string{"1 1", "2 2", "nan 3", "4 4", "nonsense", "5 5", "6 1e30", "7 7"} {
		all.Add(1)
		if err := g.Take(ctx, &Message{Input: MQTT, Key: "k", Payload: []byte(p), Done: func(error) { all.Done() }}); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	var sizes []int
	dec, _ := codec.NewDecoder(codec.Schema{Channels: []string{"x", "y"}, NonFinite: codec.Hold})
	info, err := r.in.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := range info.State.LastSeq {
		m, err := r.in.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		var b codec.Batch
		if err := dec.Decode(m.Data, &b); err != nil {
			if !bytes.Equal(m.Data, []byte("nonsense")) {
				t.Errorf("message %d: %v", seq+1, err)
			}
			b.Rows = -1
		}
		sizes = append(sizes, b.Rows)
	}
	if fmt.Sprint(sizes) != "[2 1 1 -1 1 1 1]" {
		t.Errorf("messages of %v rows, want 2 1 1 -1 1 1 1", sizes)
	}
	if s := g.Stats(); s.Unreadable != 1 {
		t.Errorf("%+v", s)
	}
}

// A message without a valid stream is refused with a sentence, and counted.
func TestRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), func(c *Config) { c.MaxMessage = 1 << 20 })
	for _, c := range []struct{ key, payload, says string }{
		{"", "1 1", "send the tag stream_id, or set input.stream"},
		{"a.b", "1 1", "dots"},
		{"a\x1bb", "1 1", "control character"},
		{strings.Repeat("k", 300), "1 1", "at most 256"},
		{"k", strings.Repeat("1 1;", 200_000) + "1 1", "send fewer samples"},
		{"", "nonsense", "want two numbers"},
	} {
		err := g.Take(t.Context(), &Message{Input: HTTP, Key: c.key, Payload: []byte(c.payload)})
		pipelinetest.Mentions(t, err, c.says)
		var refused *Refused
		if !errors.As(err, &refused) {
			t.Errorf("%q: %T", c.key, err)
		}
	}
	if s := g.Stats(); s.Refused["http"] != 6 {
		t.Errorf("%+v, want 6 refused", s)
	}
	if err := g.Take(t.Context(), &Message{Input: TCP, Lines: true, Payload: []byte("a=1 1\nnonsense\nb=2 2\n.=1 1\n")}); err != nil {
		t.Error(err)
	}
	g.endGateway(t)
	if got := r.storedSamples(); len(got["a"]) != 2 || len(got["b"]) != 2 || g.Stats().Refused["tcp"] != 2 {
		t.Errorf("%v, %+v: want the good lines", got, g.Stats())
	}
	if err := g.Take(t.Context(), &Message{Key: "k", Payload: []byte("1 1")}); err != ErrStopped {
		t.Errorf("after the end: %v", err)
	}
}

// The gateway accepts nothing while its outbox is full.
func TestOutboxFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	g := r.startGateway(t.TempDir(), func(c *Config) { c.Rows, c.OutboxBytes = 1, 64<<10 })
	n := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := g.Take(ctx, &Message{Input: MQTT, Key: fmt.Sprint(n % 5), Payload: fmt.Append(nil, n, " 0")})
		cancel()
		if err == ErrHeldBack {
			break
		}
		if n++; err != nil || n > 1000 {
			t.Fatalf("%d messages of about 800 bytes in an outbox of 64 KiB: %v", n, err)
		}
	}
	g.waitForLog(t, "the outbox is full")
	r.limitInput(-1)
	g.endGateway(t)
	total := 0
	for _, x := range r.storedSamples() {
		total += len(x) / 2
	}
	if total != n {
		t.Errorf("%d samples stored, %d taken", total, n)
	}
}

// After a power loss the outbox may lack its end. If the input (with the last number)
// is also empty, the gateway does not reuse numbers: the stage would drop the messages.
func TestNumbersInDoubt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := func(key string) Message { return Message{Input: MQTT, Key: key, Payload: []byte("1 1")} }
	g := r.startGateway(dir, nil)
	send := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if err := g.sendMessage(ctx, m(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	number := func(key string) (incarnation, seq string) {
		t.Helper()
		last, err := r.in.GetLastMsgForSubject(ctx, "eusn.in.*."+key)
		if err != nil {
			t.Fatal(err)
		}
		return last.Header.Get(wire.HeaderIncarnation), last.Header.Get(wire.HeaderSeq)
	}
	send("there", "gone")
	if err := os.CopyFS(old, os.DirFS(dir)); err != nil { // and the end of it is lost
		t.Fatal(err)
	}
	send("there", "gone", "there", "gone")
	first, _ := number("gone")
	g.endGateway(t)
	if err := r.in.Purge(ctx, jetstream.WithPurgeSubject("eusn.in.*.gone")); err != nil {
		t.Fatal(err)
	}
	anotherBoot(t, old)
	g = r.startGateway(old, nil)
	send("there", "gone")
	if i, seq := number("there"); i == first || seq != "1" {
		t.Errorf("what the input has more of goes on as number %s of %q: the stage has seen 3 of %q", seq, i, first)
	}
	if i, seq := number("gone"); i == first || seq != "1" {
		t.Errorf("what the input does not have begins with number %s of %q: the stage has seen 3 of %q", seq, i, first)
	}
	g.waitForLog(t, "the outbox may lack its end")
	g.endGateway(t)
	before, _ := number("gone")
	if err := r.in.Purge(ctx, jetstream.WithPurgeSubject("eusn.in.*.gone")); err != nil {
		t.Fatal(err)
	}
	anotherBoot(t, old)
	g = r.startGateway(old, nil)
	send("gone")
	if i, seq := number("gone"); i != before || seq != "2" {
		t.Errorf("a run that has ended is continued with number %s of %q, want 2 of %q: all its numbers are on the disk", seq, i, before)
	}
}

// Two power losses lose the end of an outbox with a waiting message, and the incarnation
// that began between them, or a single loss an incarnation after a gap: no number of the
// outbox's incarnation is used twice, and the message, which is stored, is not republished,
// even if the server has forgotten its id.
func TestNumbersTwoLosses(t *testing.T) {
	t.Parallel()
	for _, gap := range []bool{false, true} {
		for _, window := range []time.Duration{time.Hour, 100 * time.Millisecond} {
			t.Run(fmt.Sprint("gap ", gap, ", window ", window), func(t *testing.T) {
				t.Parallel()
				losePowerTwice(t, gap, window)
			})
		}
	}
}

func losePowerTwice(t *testing.T, gap bool, window time.Duration) {
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Duplicates = 1, window })
	first := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: MQTT, Key: "k", Payload: []byte("1 1")}
	g := r.startGateway(first, nil)
	send := func() {
		t.Helper()
		if err := g.sendMessage(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	send()
	if err := g.Take(ctx, &m); err != nil { // it waits, because the input is full
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	lost := []string{filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2")}
	for _, dir := range lost {
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		anotherBoot(t, dir)
	}
	r.limitInput(-1)
	m.Parts = []Part{{X: []float32{1, 1}, Gap: gap}}
	send()
	g.endGateway(t)
	stored := uint64(3)
	for _, dir := range lost {
		if window < time.Second {
			time.Sleep(3 * window / 2)
		}
		m.Parts = nil
		g = r.startGateway(dir, nil)
		send()
		stored++
		last, err := r.in.GetLastMsgForSubject(ctx, "eusn.in.*.k")
		if err != nil || last.Sequence != stored || last.Header.Get(wire.HeaderSeq) != "1" {
			t.Fatalf("message %d of the input has headers %v (%v), want message %d, number 1 of a new incarnation; all: %q", last.Sequence, last.Header, err, stored, r.storedNumbers())
		}
		g.endGateway(t)
	}
}

// anotherBoot turns an outbox into an outbox left by a power loss of the machine.
func anotherBoot(t *testing.T, dir string) {
	t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return // if the system has no boot id, any outbox left by a killed gateway is in doubt
	}
	id = bytes.TrimSpace(id)
	files, err := filepath.Glob(filepath.Join(dir, "outbox-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		line := bytes.IndexByte(b, '\n') + 1
		head := b[line:]
		n := binary.LittleEndian.Uint32(head)
		body := head[8 : 8+n]
		at := bytes.Index(body, id)
		if at < 0 {
			t.Fatalf("%s does not name the start of the machine", name)
		}
		body[at] ^= 1
		binary.LittleEndian.PutUint32(head[4:], wire.CRC(body))
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// An unreadable outbox stops only the streams with messages in it, with the right
// message.
func TestOutboxUnreadable(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	g := r.startGateway(dir, func(c *Config) { c.StopTimeout = 50 * time.Millisecond })
	if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "k", Payload: []byte("1 1")}); err != nil {
		t.Fatal(err)
	}
	if err := g.Take(ctx, &Message{Input: MQTT, Key: "k", Payload: []byte("2 2")}); err != nil {
		t.Fatal(err)
	}
	g.waitForLog(t, "the job's input is full")
	if err := os.Truncate(filepath.Join(dir, "outbox-2"), 100); err != nil {
		t.Fatal(err)
	}
	r.limitInput(-1)
	g.waitForLog(t, "the outbox cannot be read")
	if err := g.sendMessage(ctx, Message{Input: MQTT, Key: "other", Payload: []byte("1 1")}); err != nil {
		t.Error(err)
	}
}

// While the outbox cannot note that a message is stored, the device gets no answer, and the
// outbox does not count as writable.
func TestOutboxCannotNote(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	book := &pipelinetest.LogBook{}
	g, err := New(r.nc, Config{Channels: []string{"x", "y"}, Dir: t.TempDir(), Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	m := &producer.Message{Subject: "sensors.k", Incarnation: "I", Seq: 1, Stored: []func(){func() { answers++ }}}
	if err := (store{g}).Put(m); err != nil {
		t.Fatal(err)
	}
	g.out.Close()
	store{g}.Done(m)
	for _, stored := range m.Stored {
		stored()
	}
	now := time.Now().Add(time.Second)
	g.pumpLanes(now)
	if answers > 0 || !g.isFull() || book.Lines("can be written again") > 0 {
		t.Errorf("%d answers, the gateway is full: %v, with an outbox that cannot be written:\n%s", answers, g.isFull(), book)
	}
	if g.out, _, err = outbox.Open(t.TempDir(), nil, book.Logger()); err != nil {
		t.Fatal(err)
	}
	defer g.out.Close()
	g.pumpLanes(now.Add(time.Second))
	if answers != 1 || g.isFull() || book.Lines("can be written again") != 1 {
		t.Errorf("%d answers, the gateway is full: %v, want one answer and a writable outbox:\n%s", answers, g.isFull(), book)
	}
}

// A foreign producer's numbers under the same key are not continued: the stage must not
// treat the gateway's messages as repeats.
func TestAnotherProducer(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: MQTT, Key: "k", Payload: []byte("1 1")}
	g := r.startGateway(dir, nil)
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	g.endGateway(t)
	if _, err := r.js.Publish(ctx, "sensors.k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	g = r.startGateway(dir, nil)
	if err := g.sendMessage(ctx, m); err != nil {
		t.Fatal(err)
	}
	last, err := r.in.GetLastMsgForSubject(ctx, "eusn.in.*.k")
	if err != nil || last.Header.Get(wire.HeaderSeq) != "1" {
		t.Errorf("headers %v (%v), want number 1 of a new incarnation", last.Header, err)
	}
	g.waitForLog(t, "another producer")
}

// Device data makes no long log lines: a topic may have 64 KiB.
func TestLongTopic(t *testing.T) {
	topics, err := ParseTopics("plant/#")
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"plant/" + strings.Repeat("x y", 20_000), "plant/" + strings.Repeat("x", 60_000), strings.Repeat("\x01", 60_000), "plant/" + strings.Repeat("\x01", 60_000)} {
		if _, err := topics.Key(topic); err == nil || len(err.Error()) > 1500 {
			t.Errorf("%.20q: an error of %d bytes, want at most 1500", topic, len(fmt.Sprint(err)))
		}
	}
	book := &pipelinetest.LogBook{}
	told := complaints{log: book.Logger()}
	told.logComplaint("a message is refused", strings.Repeat("y", 60_000), errors.New(strings.Repeat("x", 60_000)))
	if n := len(book.String()); n == 0 || n > 4000 {
		t.Errorf("a line of %d bytes in the log", n)
	}
}

func TestTopics(t *testing.T) {
	for _, c := range []struct{ patterns, topic, key string }{
		{"sensors/+", "sensors/a", "a"},
		{"plant/+/line/+/sensor/+", "plant/A/line/3/sensor/7", "A/3/7"},
		{"plant/+/#", "plant/A/x/y", "A/x/y"},
		{"a/+, b/+/c", "b/q/c", "q"},
		{"#", "x/y", "x/y"},
		{"sensors/+", "sensors/a/b", ""},
		{"sensors/+", "sensors", ""},
		{"sensors/#", "sensors", ""},
		{"sensors/+", "sensors/", ""},
		{"sensors/+", "sensors/a.b", ""},
		{"+/a", "$SYS/a", ""},
	} {
		p, err := ParseTopics(c.patterns)
		if err != nil {
			t.Fatal(err)
		}
		key, err := p.Key(c.topic)
		if key != c.key || (err == nil) != (c.key != "") {
			t.Errorf("%q of %q: %q, %v; want %q", c.topic, c.patterns, key, err, c.key)
		}
	}
	for _, bad := range []string{"", "a/b", "a/#/b", "a/+b", "x/+,"} {
		if _, err := ParseTopics(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAccess(t *testing.T) {
	for _, c := range []struct {
		a     Access
		addr  string
		login bool
		says  string
	}{
		{Access{}, "127.0.0.1:1883", true, ""},
		{Access{}, "[::1]:1883", true, ""},
		{Access{}, ":1883", true, "gateway.user"},
		{Access{User: "u"}, "0.0.0.0:1883", true, "sent in clear"},
		{Access{Open: true}, ":1883", true, ""},
		{Access{User: "u"}, ":8094", false, "lines have no login"},
		{Access{}, "nonsense", true, "missing port"},
	} {
		err := c.a.CheckAddress("gateway.mqtt", c.addr, c.login)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v at %s: %v, want %q", c.a, c.addr, err, c.says)
		}
	}
	a := Access{User: "u", Password: "p"}
	if !a.Allows("u", "p") || a.Allows("u", "") || a.Allows("", "p") || !(Access{}).Allows("x", "y") {
		t.Error("logins are compared wrongly")
	}
}

// Missing samples begin a new incarnation, if earlier samples exist, and an end ends a
// message, also after a restart.
func TestGapAndEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	dir := t.TempDir()
	g := r.startGateway(dir, nil)
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	send := func(parts ...Part) {
		t.Helper()
		if err := g.sendMessage(ctx, Message{Input: MQTT, Payload: []byte{1}, Parts: parts}); err != nil {
			t.Fatal(err)
		}
	}
	row := func(x float32, gap bool) Part {
		return Part{Key: "k", X: []float32{x, 0}, Times: []int64{int64(x)}, Gap: gap}
	}
	send(row(1, true))
	send(row(2, false), row(3, true), Part{Key: "k", End: true})
	send(Part{Key: "k", End: true})
	g.endGateway(t)
	g = r.startGateway(dir, nil)
	send(row(4, false))
	var told []string
	incarnations := map[string]int{}
	info, err := r.in.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range info.State.LastSeq {
		m, err := r.in.GetMsg(ctx, seq+1)
		if err != nil {
			t.Fatal(err)
		}
		dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"x", "y"}})
		if err != nil {
			t.Fatal(err)
		}
		var b codec.Batch
		if err := dec.Decode(m.Data, &b); err != nil {
			t.Fatal(err)
		}
		inc := m.Header.Get(wire.HeaderIncarnation)
		if _, ok := incarnations[inc]; !ok {
			incarnations[inc] = len(incarnations)
		}
		told = append(told, fmt.Sprint(incarnations[inc], " ", m.Header.Get(wire.HeaderSeq), " ", b.X, " ", m.Header.Get(wire.HeaderEnd)))
	}
	if want := []string{"0 1 [1 0] ", "0 2 [2 0] ", "1 1 [3 0] true", "1 2 [] true", "1 3 [4 0] "}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
