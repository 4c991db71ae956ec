package pipeline

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// items is a Source of what it holds.
type items struct {
	list []Item
	at   int
	stop int                // fn is called before the item of this number
	fn   context.CancelFunc // if any
}

func (s *items) Next() (Item, error) {
	if s.fn != nil && s.at == s.stop {
		s.fn()
	}
	if s.at == len(s.list) {
		return Item{}, io.EOF
	}
	s.at++
	return s.list[s.at-1], nil
}

// series makes n series of 30 to 50 samples on k streams.
func series(n, k int, timed bool) (list []Item, perStream map[string][]recording) {
	perStream = map[string][]recording{}
	for i, r := range recordings(n, 50) {
		rows := 30 + i%21
		name := recordings(k, 1)[i%k].name
		it := Item{Stream: name, X: r.x[:2*rows], End: true}
		if timed {
			it.Times = r.times[:rows]
		}
		list = append(list, it)
		ends := make([]bool, rows)
		ends[rows-1] = true
		perStream[name] = append(perStream[name], recording{name: name, x: it.X, times: r.times[:rows], ends: ends})
	}
	return list, perStream
}

// What the publisher sends arrives complete, numbered without gap, each
// stream in order; and the stage's scores are an engine's.
func TestPublisherToStage(t *testing.T) {
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.start(m, Config{Job: "pub", Partitions: 4})
	list, streams := series(60, 7, false)
	var told int
	p := Publisher{Channels: m.Channels, RowsPerMessage: 8, Playing: 5, Progress: func(Published) { told++ }}
	got, err := p.Publish(t.Context(), b.nc, &items{list: list})
	if err != nil {
		t.Fatal(err)
	}
	rows, messages := 0, 0
	for _, it := range list {
		rows += len(it.X) / 2
		messages += (len(it.X)/2 + 7) / 8
	}
	if got.Streams != 7 || got.Rows != uint64(rows) || got.Messages != uint64(messages) || got.Skipped != 0 {
		t.Fatalf("published %+v, want 7 streams, %d rows, %d messages", got, rows, messages)
	}
	s := b.settle(r, messages)
	if s.Gaps != 0 || s.Duplicates != 0 || s.Rows != uint64(rows) {
		t.Fatalf("stage saw %+v", s)
	}
	out := b.predictions("pub")
	for name, list := range streams {
		if len(out[name]) != len(list) {
			t.Fatalf("stream %s: %d predictions, want %d", name, len(out[name]), len(list))
		}
		for i, rec := range list {
			exp := direct(t, m, []recording{rec}, map[string][]packet{name: {{batch: codec.Batch{Rows: len(rec.times)}}}})[name][0]
			if g := out[name][i]; !sameBits(g.Scores, exp.Scores) || g.Flags != 0 {
				t.Fatalf("stream %s, series %d: %+v, want scores %v", name, i, g, exp.Scores)
			}
		}
	}
	r.stop(t)
	if told == 0 && got.Elapsed > 2*progressEvery {
		t.Error("no progress was told")
	}
}

// A publisher that is stopped and started again with Resume leaves the same
// messages behind as one that ran through; another source is refused.
func TestPublisherResume(t *testing.T) {
	b := newRig(t)
	r := b.start(testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Job: "res", Partitions: 4})
	list, _ := series(40, 5, true)
	p := Publisher{Channels: []string{"x", "y"}, RowsPerMessage: 4, Playing: 3, Resume: true, Job: "res"}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := p.Publish(ctx, b.nc, &items{list: list, stop: 17, fn: cancel})
	if !errors.Is(err, context.Canceled) || first.Messages == 0 {
		t.Fatalf("stopped publisher returned %+v, %v", first, err)
	}
	second, err := p.Publish(t.Context(), b.nc, &items{list: list})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, it := range list {
		total += (len(it.Times) + 3) / 4
	}
	if second.Skipped != first.Messages || second.Skipped+second.Messages != uint64(total) {
		t.Fatalf("first %+v, second %+v, want %d messages in all", first, second, total)
	}
	s := b.settle(r, total)
	if s.Messages != uint64(total) || s.Duplicates+s.Gaps+s.DeadLetters != 0 {
		t.Fatalf("stage saw %+v, want %d clean messages", s, total)
	}
	third, err := p.Publish(t.Context(), b.nc, &items{list: list})
	if err != nil || third.Messages != 0 || third.Skipped != uint64(total) {
		t.Fatalf("a third time: %+v, %v; want nothing to do", third, err)
	}
	p.RowsPerMessage = 5
	if _, err := p.Publish(t.Context(), b.nc, &items{list: list}); err == nil || !strings.Contains(err.Error(), "rows per message") {
		t.Fatalf("resuming with other messages: %v, want an error that says why", err)
	}
	r.stop(t)
}

// Without Resume a second run counts anew and is not taken for repeats.
func TestPublisherNewIncarnation(t *testing.T) {
	b := newRig(t)
	r := b.start(testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Job: "inc", Partitions: 2})
	list, _ := series(6, 3, false)
	p := Publisher{Channels: []string{"x", "y"}}
	for range 2 {
		if _, err := p.Publish(t.Context(), b.nc, &items{list: list}); err != nil {
			t.Fatal(err)
		}
	}
	s := b.settle(r, 12)
	if s.Messages != 12 || s.Duplicates != 0 || s.Incarnations != 3 {
		t.Fatalf("%+v, want 12 messages, no duplicates, 3 new incarnations", s)
	}
	r.stop(t)
}

func TestPublisherPaces(t *testing.T) {
	b := newRig(t)
	r := b.start(testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Job: "pace", Partitions: 1})
	it := Item{Stream: "a", X: make([]float32, 2*101), End: true}
	for i := range 101 {
		it.Times = append(it.Times, int64(i)*int64(20*time.Millisecond)) // 2 s of recording
	}
	for _, c := range []struct {
		p Publisher
		i Item
	}{
		{Publisher{Speed: 10}, it},
		{Publisher{Speed: 2, Rate: 252.5}, Item{Stream: "b", X: it.X, End: true}}, // 101 samples at 505 per second
	} {
		c.p.Channels, c.p.RowsPerMessage = []string{"x", "y"}, 10
		got, err := c.p.Publish(t.Context(), b.nc, &items{list: []Item{c.i}})
		// 200 ms as planned; more only where the machine is busy, so the upper
		// bound is loose: it must not be 1x (2 s).
		if err != nil || got.Elapsed < 199*time.Millisecond || got.Elapsed > 1500*time.Millisecond {
			t.Errorf("%+v took %v (%v), want about 200 ms", c.p, got.Elapsed, err)
		}
	}
	_, err := Publisher{Channels: []string{"x", "y"}, Speed: 1}.Publish(t.Context(), b.nc, &items{list: []Item{{Stream: "c", X: it.X}}})
	if err == nil || !strings.Contains(err.Error(), "rate") {
		t.Errorf("pacing without times or rate: %v", err)
	}
	r.stop(t)
}

func TestPublisherRefuses(t *testing.T) {
	b := newRig(t)
	ctx := t.Context()
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"sensors.*"}, MaxMsgSize: 4096}); err != nil {
		t.Fatal(err)
	}
	good := Publisher{Channels: []string{"x", "y"}}
	x := make([]float32, 4096)
	for _, c := range []struct {
		name string
		p    Publisher
		it   Item
		want string
	}{
		{"dot in name", good, Item{Stream: "a.b", X: x[:2]}, "subject token"},
		{"odd values", good, Item{Stream: "a", X: x[:3]}, "3 values of 2 channels"},
		{"times", good, Item{Stream: "a", X: x[:4], Times: []int64{1}}, "with 1 times"},
		{"too large for the NATS stream", Publisher{Channels: good.Channels, RowsPerMessage: 2048}, Item{Stream: "a", X: x}, "maximum"},
		{"speed", Publisher{Channels: good.Channels, Speed: math.NaN()}, Item{}, "speed"},
		{"subject", Publisher{Channels: good.Channels, Subject: "a.>"}, Item{}, "input subject"},
		{"channels", Publisher{}, Item{}, "channel"},
	} {
		_, err := c.p.Publish(ctx, b.nc, &items{list: []Item{c.it}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
	failing := &items{list: nil}
	if got, err := good.Publish(ctx, b.nc, failing); err != nil || got.Messages != 0 {
		t.Errorf("an empty source: %+v, %v", got, err)
	}
}

// forgetful is a JetStream whose client loses the first message and gives no
// answer for it.
type forgetful struct {
	jetstream.JetStream
	lost bool
}

func (f *forgetful) PublishMsgAsync(m *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if !f.lost {
		f.lost = true
		return noAnswer{}, nil
	}
	return f.JetStream.PublishMsgAsync(m, opts...)
}

// A message for which the client never gives an answer is sent again.
func TestPublisherAsksAgain(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"sensors.*"}}); err != nil {
		t.Fatal(err)
	}
	list, _ := series(2, 2, true)
	p := Publisher{Subject: DefaultInputSubject, Channels: []string{"x", "y"}, RowsPerMessage: 50, Playing: 2, Log: b.log}
	loop := newBroadcast(p, &items{list: list})
	if err := loop.open(t.Context(), b.nc); err != nil {
		t.Fatal(err)
	}
	loop.js = &forgetful{JetStream: loop.js}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if err := loop.run(ctx); err != nil || loop.done.Messages != 2 || loop.done.Retries != 1 {
		t.Errorf("%+v, %v", loop.done, err)
	}
}
