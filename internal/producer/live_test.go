package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// jobInput starts a server with the input of the job "eusn", as a stage creates it.
func jobInput(t *testing.T, c jetstream.StreamConfig) (*nats.Conn, jetstream.Stream) {
	t.Helper()
	c.Name = wire.InputStream(wire.DefaultJob)
	c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: wire.DefaultInputSubject, Destination: "eusn.in.{{partition(4,1)}}.{{wildcard(1)}}"}
	nc := serveStream(t, c)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	return nc, s
}

// inputMessage is a message of the input, decoded.
type inputMessage struct {
	seq   uint64 // in the NATS stream
	key   string
	h     nats.Header
	batch codec.Batch
}

// inputOf reads all messages of an input.
func inputOf(t *testing.T, s jetstream.Stream) (all []inputMessage) {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		d, err := codec.NewDecoder(codec.Schema{Channels: []string{"x", "y"}, NonFinite: codec.Hold})
		if err != nil {
			t.Fatal(err)
		}
		one := inputMessage{seq: seq, key: m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], h: m.Header}
		if err := d.Decode(m.Data, &one.batch); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func newLive(t *testing.T, nc *nats.Conn, o LiveOptions) *Live {
	t.Helper()
	o.Channels = []string{"x", "y"}
	o.Log = pipelinetest.Log(t)
	l, err := NewLive(t.Context(), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testValues are the samples from to to-1 of a stream: their number, twice.
func testValues(from, to int) (x []float32) {
	for i := from; i < to; i++ {
		x = append(x, float32(i), float32(i))
	}
	return x
}

func testTimes(from, to int) (t []int64) {
	for i := from; i < to; i++ {
		t = append(t, int64(i)*int64(time.Millisecond))
	}
	return t
}

// Samples published one at a time share messages, a sequence's end ends a message, and
// nothing is stored twice or out of order.
func TestLiveBatches(t *testing.T) {
	t.Parallel()
	nc, in := jobInput(t, jetstream.StreamConfig{})
	var mu sync.Mutex
	stored := map[string]int{}
	l := newLive(t, nc, LiveOptions{Rows: 8, Latency: time.Hour, Stored: func(s string, n int) { mu.Lock(); stored[s] += n; mu.Unlock() }})
	for i := range 20 {
		for _, s := range []string{"a", "b"} {
			it := Item{Stream: s, X: testValues(i, i+1), End: i == 10}
			if s == "b" && i%2 == 0 {
				it.Times = testTimes(i, i+1)
			}
			if err := l.Publish(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Publish(t.Context(), Item{Stream: "b", End: true}); err != nil { // an end without samples
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(t.Context(), Item{Stream: "b", End: true}); err != nil { // in a message without samples
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(t.Context(), Item{Stream: "b", X: testValues(0, 1)}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	rows, seq, ends := map[string]int{}, map[string]int{}, map[string][]int{}
	for _, m := range inputOf(t, in) {
		seq[m.key]++
		if m.h.Get(wire.HeaderSeq) != fmt.Sprint(seq[m.key]) || m.h.Get(wire.HeaderIncarnation) != l.run || m.h.Get(wire.HeaderCRC) == "" || m.batch.Rows > 8 {
			t.Errorf("message %d of %s: %d rows, headers %v", seq[m.key], m.key, m.batch.Rows, m.h)
		}
		for i := range m.batch.Rows {
			n := rows[m.key]
			if m.batch.X[2*i] != float32(n) || m.key == "b" && n%2 == 0 && m.batch.Times[i] != int64(n)*int64(time.Millisecond) {
				t.Errorf("sample %d of %s is %v at %v", n, m.key, m.batch.X[2*i], m.batch.Times)
			}
			rows[m.key]++
		}
		if m.h.Get(wire.HeaderEnd) != "" {
			ends[m.key] = append(ends[m.key], rows[m.key])
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if rows["a"] != 20 || rows["b"] != 20 || stored["a"] != 20 || stored["b"] != 20 || !slices.Equal(ends["a"], []int{11}) || !slices.Equal(ends["b"], []int{11, 20, 20}) {
		t.Errorf("rows %v, stored %v, ends %v", rows, stored, ends)
	}
	if seq["a"] > 8 {
		t.Errorf("%d messages for 20 samples", seq["a"])
	}
}

// A full input blocks the caller and drops nothing: when there is room, all samples
// arrive.
func TestLiveHoldsBack(t *testing.T) {
	t.Parallel()
	nc, in := jobInput(t, jetstream.StreamConfig{MaxMsgs: 3, Discard: jetstream.DiscardNew})
	l := newLive(t, nc, LiveOptions{Rows: 2, Latency: -1, Buffer: 10})
	taken := 0
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := l.Publish(ctx, Item{Stream: "a", X: testValues(taken, taken+1)})
		cancel()
		if err != nil {
			pipelinetest.Mentions(t, err, "nothing taken", "10 samples wait")
			break
		}
		if taken++; taken > 16 {
			t.Fatal("a full input takes everything")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush into a full input: %v", err)
	}
	pipelinetest.Mentions(t, l.Publish(t.Context(), Item{Stream: "a", X: testValues(0, 11)}), "11 samples at once")
	before := inputOf(t, in)
	// Makes room for 3 messages, 6 samples of the 10. Only read messages are removed:
	// the client stores the next message at any moment.
	purge := func(read []inputMessage) {
		if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(read[len(read)-1].seq+1)); err != nil {
			t.Fatal(err)
		}
	}
	purge(before)
	for len(before) < 100 {
		time.Sleep(20 * time.Millisecond)
		more := inputOf(t, in)
		if len(more) < 3 && l.countWaiting() > 0 {
			continue
		}
		if len(more) == 0 {
			break
		}
		purge(more)
		before = append(before, more...)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range append(before, inputOf(t, in)...) {
		for i := range m.batch.Rows {
			if m.batch.X[2*i] != float32(n) {
				t.Fatalf("sample %v, want %d", m.batch.X[2*i], n)
			}
			n++
		}
	}
	if n != taken {
		t.Errorf("%d samples stored of %d taken", n, taken)
	}
}

func (l *Live) countWaiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// A restarted client continues at the end of the input, for any repeated samples, and a
// client that continues late is refused.
func TestLiveResumes(t *testing.T) {
	t.Parallel()
	nc, in := jobInput(t, jetstream.StreamConfig{})
	o := LiveOptions{Resume: true, Rows: 4, Latency: time.Millisecond}
	publish := func(l *Live, from, to int, end bool) error {
		err := l.Publish(t.Context(), Item{Stream: "a", X: testValues(from, to), Times: testTimes(from, to), End: end})
		return errors.Join(err, l.Flush(t.Context()))
	}
	first := newLive(t, nc, o)
	for i := range 3 {
		if err := publish(first, 3*i, 3*i+3, i == 1); err != nil {
			t.Fatal(err)
		}
	}
	second := newLive(t, nc, o)
	for _, c := range []struct {
		from, to int
		end      bool
	}{{2, 5, false}, {5, 6, true}, {6, 12, false}, {12, 12, true}} {
		if err := publish(second, c.from, c.to, c.end); err != nil {
			t.Fatal(err)
		}
	}
	pipelinetest.Mentions(t, publish(second, 11, 13, false), "later time")
	pipelinetest.Mentions(t, second.Publish(t.Context(), Item{Stream: "a", X: testValues(13, 14)}), "without times")
	// The first client was still alive: the server refuses the messages, and the client
	// ends.
	pipelinetest.Mentions(t, publish(first, 9, 10, false), "another producer", "stop the other one")
	third := newLive(t, nc, o)
	if err := errors.Join(publish(third, 10, 12, true), publish(third, 12, 13, false), third.Close(t.Context()), second.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	rows, ends := 0, []int(nil)
	for i, m := range inputOf(t, in) {
		if m.h.Get(wire.HeaderSeq) != fmt.Sprint(i+1) || m.h.Get(wire.HeaderIncarnation) != first.run {
			t.Errorf("message %d has the headers %v", i, m.h)
		}
		for k := range m.batch.Rows {
			if m.batch.X[2*k] != float32(rows) {
				t.Fatalf("sample %v, want %d", m.batch.X[2*k], rows)
			}
			rows++
		}
		if m.h.Get(wire.HeaderEnd) != "" {
			ends = append(ends, rows)
		}
	}
	if rows != 13 || !slices.Equal(ends, []int{6, 12}) {
		t.Errorf("%d rows with ends after %v, want 13, after 6 and 12", rows, ends)
	}
	if _, err := nc.Request("sensors.b", []byte("no client's"), time.Second); err != nil {
		t.Fatal(err)
	}
	fourth := newLive(t, nc, o)
	pipelinetest.Mentions(t, fourth.Publish(t.Context(), Item{Stream: "b", X: testValues(0, 1), Times: testTimes(1, 2)}), `stream "b"`, "not of a client that resumes")
	if err := fourth.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A resent dead letter, and input removed by its limits, do not stop a resumed client.
func TestLiveGoesOnBehindOthers(t *testing.T) {
	t.Parallel()
	nc, in := jobInput(t, jetstream.StreamConfig{})
	l := newLive(t, nc, LiveOptions{Resume: true, Latency: -1})
	publish := func(i int) {
		t.Helper()
		if err := errors.Join(l.Publish(t.Context(), Item{Stream: "a", X: testValues(i, i+1), Times: testTimes(i, i+1)}), l.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	publish(0)
	if _, err := nc.RequestMsg(&nats.Msg{Subject: "sensors.a", Header: nats.Header{wire.HeaderDead: {"1"}}}, time.Second); err != nil {
		t.Fatal(err)
	}
	publish(1)
	if err := in.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish(2)
	if all := inputOf(t, in); len(all) != 1 || all[0].h.Get(wire.HeaderSeq) != "3" {
		t.Errorf("%d messages: %v", len(all), all)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Invalid options are refused immediately.
func TestLiveRefuses(t *testing.T) {
	t.Parallel()
	nc, _ := jobInput(t, jetstream.StreamConfig{})
	l := newLive(t, nc, LiveOptions{})
	for _, c := range []struct {
		it   Item
		want string
	}{
		{Item{Stream: "a.b"}, "subject token"},
		{Item{Stream: "a", X: make([]float32, 3)}, "3 values of 2 channels"},
		{Item{Stream: "a", X: make([]float32, 4), Times: []int64{1}}, "with 1 times"},
	} {
		pipelinetest.Mentions(t, l.Publish(t.Context(), c.it), c.want)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		o    LiveOptions
		want string
	}{
		{LiveOptions{}, "channel"},
		{LiveOptions{Channels: []string{"x"}, Subject: "a.>.b"}, "input subject"},
		{LiveOptions{Channels: []string{"x"}, Rows: -1}, "-1 samples in a message"},
		{LiveOptions{Channels: []string{"x"}, Rows: 1 << 22, Buffer: 1 << 23}, "the server takes"},
		{LiveOptions{Channels: []string{"x"}, Resume: true, Job: "nosuch"}, "NOSUCH-IN"},
	} {
		_, err := NewLive(t.Context(), nc, c.o)
		pipelinetest.Mentions(t, err, c.want)
	}
}
