package owner

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// commonOf returns a common reader without a consumer, and the reader's partitions.
func commonOf(t *testing.T, partitions int) (*Common, []*Ownership) {
	ctx, stop := context.WithCancel(t.Context())
	w := &Worker{Job: "j", Partitions: partitions, Log: slog.New(slog.DiscardHandler), Counters: new(stats.Counters), Shards: ctx, Server: Server{In: &store.Input{Job: "j"}}, Safeguards: Safeguards{Trusting: true}}
	c := NewCommon(w, time.Hour, func() (jetstream.JetStream, error) {
		<-ctx.Done()
		return nil, errors.New("no server")
	})
	t.Cleanup(c.Close)
	t.Cleanup(stop) // first
	all := make([]*Ownership, partitions)
	for p := range all {
		all[p] = &Ownership{w: w, part: shard.NewPartition(p, 0), shard: &shard.Shard{Queue: make(chan shard.Job, 1)}, ctx: ctx, Stop: stop, changed: make(chan struct{}, 1)}
	}
	return c, all
}

// requireTaken demands whether a partition may join.
func requireTaken(t *testing.T, c *Common, o *Ownership, seq uint64, current, want bool) {
	t.Helper()
	if got := c.takeMember(o, seq, current); got != want || o.Input.common.Load() != want {
		t.Fatalf("partition %d, behind message %d: joined %v, want %v", o.part.State.ID, seq, got, want)
	}
}

// A partition joins only if the common consumer has not passed any message missing in
// the partition's shard, and is near.
func TestWhoJoinsTheCommonReader(t *testing.T) {
	c, o := commonOf(t, 6)
	requireTaken(t, c, o[0], 10, true, false) // the worker has not all partitions
	c.SetWhole(true)
	requireTaken(t, c, o[0], 10, false, false) // the partition has waiting messages, which would delay the other partitions
	requireTaken(t, c, o[0], 10, true, true)
	requireTaken(t, c, o[1], 9, true, false) // message 10 may belong to the partition, and does not come from the common consumer
	r := c.now
	if m := c.followMember(r, "j.in.1.k", 12, 1, 5); m != nil {
		t.Errorf("message 12 goes to %+v, which reads by its own", m)
	}
	requireTaken(t, c, o[1], 11, true, false)
	requireTaken(t, c, o[1], 12, true, true)
	requireTaken(t, c, o[2], 13+nearby, true, false)
	requireTaken(t, c, o[2], 12+nearby, true, true)
	o[3].Input.Doubt.Store(true)
	requireTaken(t, c, o[3], 12, true, false)
	o[4].w = &Worker{Drain: &Drain{}, Server: c.w.Server}
	requireTaken(t, c, o[4], 12, true, false)
	for subject, want := range map[string]*Ownership{"j.in.0.k": o[0], "j.in.1.a.b": o[1], "j.in.2.k": o[2], "j.in.3.k": nil, "j.in.6.k": nil, "j.in.*.k": nil, "j.in.-1.k": nil, "j": nil} {
		r.count = 1
		m := c.followMember(r, subject, 13, 2, 5)
		if (m == nil) != (want == nil) || m != nil && m.t != want {
			t.Errorf("a message on %s goes to %+v", subject, m)
		}
	}
	c.leaveReading(o[1])
	if m := c.followMember(r, "j.in.1.k", 14, 3, 5); m != nil {
		t.Error("a partition that has left gets a message")
	}
	requireTaken(t, c, o[1], 14, true, false) // for a while
	c.SetWhole(false)
	if c.CountReads() != 0 || o[0].Input.common.Load() || len(o[0].changed) != 1 {
		t.Error("a worker that has not all partitions any more still reads them together")
	}
}

// An ended partition may still process a message: the partition does not join then,
// because no code would remove the partition.
func TestEndedPartitionDoesNotJoin(t *testing.T) {
	c, o := commonOf(t, 2)
	c.SetWhole(true)
	ctx, stop := context.WithCancel(o[0].ctx)
	o[0].ctx = ctx
	stop()
	c.leaveReading(o[0])
	requireTaken(t, c, o[0], 10, true, false)
	requireTaken(t, c, o[1], 10, true, true)
	requireTaken(t, c, o[0], 11, false, false)
	if c.CountReads() != 1 {
		t.Errorf("%d partitions are read, want 1", c.CountReads())
	}
}

// If the client has recreated the consumer, or messages were skipped, no message is
// used: each partition checks the input.
func TestCommonReaderEndsAtADoubt(t *testing.T) {
	for name, next := range map[string]func(*Common, *commonReading) *member{
		"a new consumer":              func(c *Common, r *commonReading) *member { return c.followMember(r, "j.in.0.k", 12, 1, 9) },
		"a message that has not come": func(c *Common, r *commonReading) *member { return c.followMember(r, "j.in.0.k", 12, 3, 8) },
		"unread messages gone": func(c *Common, r *commonReading) *member {
			return c.followMember(r, "j.in.0.k", 12, 2, 7)
		},
	} {
		c, o := commonOf(t, 2)
		c.SetWhole(true)
		requireTaken(t, c, o[0], 10, true, true)
		r := c.now
		if m := c.followMember(r, "j.in.0.k", 11, 1, 9); m == nil {
			t.Fatal("the first message goes to nobody")
		}
		if m := next(c, r); m != nil || c.now != nil || o[0].Input.common.Load() {
			t.Errorf("%s: the message goes to %+v", name, m)
		}
		if m := c.followMember(r, "j.in.0.k", 13, 2, 8); m != nil {
			t.Errorf("%s: a later message goes to %+v", name, m)
		}
		requireTaken(t, c, o[0], 13, true, false) // not at once
	}
}

// A partition with a doubtful input, or with a full shard queue, has not received a
// message.
func TestHandOrLeave(t *testing.T) {
	_, all := commonOf(t, 1)
	o := all[0]
	m := &member{t: o}
	msg := &nats.Msg{Subject: "j.in.0.k"}
	o.Input.passed.Store(5)
	for _, step := range []struct {
		seq    uint64
		doubt  bool
		got    bool
		passed uint64
	}{{5, false, true, 5}, {6, true, false, 5}, {6, false, true, 6}, {7, false, false, 6}} { // the queue holds one message
		o.Input.Doubt.Store(step.doubt)
		if got := m.handMessage(msg, wire.Place{Seq: step.seq, Stored: 1}); got != step.got || o.Input.passed.Load() != step.passed || o.part.Waiting.Load() != int64(step.passed-5) {
			t.Errorf("message %d: got %v, passed %d, %d waiting; want %v and %d", step.seq, got, o.Input.passed.Load(), o.part.Waiting.Load(), step.got, step.passed)
		}
	}
	o.Stop()
	if !m.handMessage(msg, wire.Place{Seq: 7, Stored: 1}) || o.part.Waiting.Load() != 1 {
		t.Error("a partition that has ended is to leave as if it could read by its own")
	}
}

// Partitions with a common beginning read together, except a partition with a large
// backlog.
func TestPartitionsGather(t *testing.T) {
	c, o := commonOf(t, 4)
	c.SetWhole(true)
	c.ExpectPartitions(4)
	joined := make(chan int, 4)
	for p, seq := range []uint64{nearby + 100, 50, nearby + 90, 2*nearby + 90} { // after the last, the partitions are not all near
		go func() {
			if c.joinGathering(o[p], seq) {
				joined <- p
			} else {
				joined <- -1
			}
		}()
	}
	n := map[int]bool{}
	for range 4 {
		n[<-joined] = true
	}
	if len(n) != 4 || !n[0] || !n[2] || !n[3] || c.now.at != nearby+90 {
		t.Errorf("joined %v behind message %d, want partitions 0, 2 and 3 behind %d", n, c.now.at, nearby+90)
	}
}

// A partition with a slow claim delays the others only briefly.
func TestPartitionsGatherInTime(t *testing.T) {
	c, o := commonOf(t, 3)
	c.SetWhole(true)
	c.ExpectPartitions(3)
	if !c.joinGathering(o[1], 7) || c.CountReads() != 1 || c.now.at != 7 {
		t.Errorf("one of three partitions that came: %d read together", c.CountReads())
	}
	requireTaken(t, c, o[0], 8, false, true)
}

// Received messages that wait in this process count as unread, like messages on the
// server.
func TestShareOfUnread(t *testing.T) {
	c, _ := commonOf(t, 2)
	if n := c.memberShare(); n != 0 {
		t.Errorf("without a reading %d", n)
	}
	for _, s := range []struct{ server, here, want int64 }{{-1, 0, 0}, {3, 0, 2}, {3, 1000, 500}, {1000, 3, 500}} {
		c.now = &commonReading{joined: 2, unread: s.server, behind: func() int64 { return s.here }}
		if n := c.memberShare(); n != s.want {
			t.Errorf("%d at the server and %d here: %d each, want %d", s.server, s.here, n, s.want)
		}
	}
	c.now = nil
}

// A partition silent for an hour is not an hour behind while the common consumer has
// messages of other partitions.
func TestSilentPartitionIsNotBehind(t *testing.T) {
	c, o := commonOf(t, 2)
	silent := o[1]
	silent.w.Common = c
	silent.Input.Came.Store(wire.Place{Seq: 3, Stored: time.Now().Add(-time.Hour).UnixNano()})
	silent.Input.common.Store(true)
	c.now = &commonReading{joined: 2, unread: 5}
	if h := silent.Health(); h.Lag != 3 || h.LagTime != UnknownLag {
		t.Errorf("before the server was asked %d messages wait, %v behind, want 3, and that it is not known", h.Lag, h.LagTime)
	}
	silent.Input.oldest.Store(&oldest{asked: time.Now()})
	if h := silent.Health(); h.Lag != 3 || h.LagTime != 0 {
		t.Errorf("%d messages wait, %v behind, want 3 and none", h.Lag, h.LagTime)
	}
	silent.part.Waiting.Add(1)
	if h := silent.Health(); h.Lag != 4 || h.LagTime < time.Hour {
		t.Errorf("with one of its own %d messages wait, %v behind, want 4 and an hour", h.Lag, h.LagTime)
	}
	c.now = nil
}
