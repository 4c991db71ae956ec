package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// past is a server that can be stopped and restarted while its clients stay, and whose
// NATS streams can be restored to earlier states.
type past struct {
	t    *testing.T
	dir  string
	port int
	srv  *natsserver.Server
}

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{t: t, dir: t.TempDir(), port: natsserver.RandomPort}
	p.startServer(p.port)
	p.port = pipelinetest.Port(t, p.srv)
	t.Cleanup(func() { p.srv.Close() })
	return p
}

func (p *past) startServer(port int) {
	p.t.Helper()
	srv, err := natsserver.Start(p.t.Context(), natsserver.Options{Dir: p.dir, Port: port, Log: testLog(p.t)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.srv = srv
}

// newRig returns a rig on the running server; its stages outlive the rig.
func (p *past) newRig() *rig {
	p.t.Helper()
	b := rigOf(p.t, p.srv)
	b.url = fmt.Sprintf("nats://127.0.0.1:%d", p.port)
	return b
}

func (p *past) streamFolder(name string) string {
	return filepath.Join(p.dir, "jetstream", "$G", "streams", name)
}

// keepStreams copies NATS streams while the server is stopped; the returned function restores
// the copies.
func (p *past) keepStreams(names ...string) (putBack func()) {
	p.t.Helper()
	aside := p.t.TempDir()
	p.srv.Close()
	for _, name := range names {
		if err := os.CopyFS(filepath.Join(aside, name), os.DirFS(p.streamFolder(name))); err != nil {
			p.t.Fatal(err)
		}
	}
	p.startServer(p.port)
	return func() {
		p.t.Helper()
		for _, name := range names {
			err := os.RemoveAll(p.streamFolder(name))
			if err == nil {
				err = os.CopyFS(p.streamFolder(name), os.DirFS(filepath.Join(aside, name)))
			}
			if err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// whileAlone starts the server at an address unknown to stages, calls do, and stops the
// server.
func (p *past) whileAlone(do func(b *rig)) {
	p.t.Helper()
	p.startServer(natsserver.InProcess)
	do(rigOf(p.t, p.srv))
	p.srv.Close()
}

// endedSequences returns messages that each end a sequence, without numbers.
func endedSequences(key string, n int, value float32) (all []pipelinetest.Packet) {
	for i := range n {
		all = append(all, pipelinetest.One(key, 0, 2, value+float32(i)/64, true))
	}
	return all
}

// An input that goes back under a live worker, and is refilled beyond the worker's
// position, stops the partitions that had read lost messages, before any new message is
// used. Other partitions continue.
func TestInputGoesBackUnderStage(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.newRig()
	book := &pipelinetest.LogBook{}
	b.log = book.Logger()
	c := pipeline.Config{Job: "back", Partitions: 2, Lease: time.Minute} // the watch comes too late
	r := b.startStage(m, c)
	keys := map[int]string{}
	for i := 0; len(keys) < 2; i++ {
		keys[wire.PartitionOf(fmt.Sprint("k", i), 2)] = fmt.Sprint("k", i)
	}
	b.publishPackets(append(endedSequences(keys[0], 4, 0), endedSequences(keys[1], 4, 1)...))
	b.settleMessages(r, 8)
	putBack := p.keepStreams(wire.InputStream(c.Job))
	b = p.newRig()
	b.publishPackets(endedSequences(keys[0], 5, 2)) // messages 9 to 13, only of partition 0
	b.settleMessages(r, 13)
	p.srv.Close()
	putBack()
	p.whileAlone(func(b *rig) {
		b.publishPackets(endedSequences(keys[0], 10, 3)) // 9 to 18 once more
		b.publishPackets(endedSequences(keys[1], 3, 4))  // 19 to 21
	})
	p.startServer(p.port)
	b = p.newRig()
	r.waitUntil(t, "stop of partition 0, and partition 1 at work", func(s pipeline.Stats) bool { return s.Stopped == 1 && s.Predictions == 13+3 })
	err := r.counters.Status().Partitions[0].Err
	mentions(t, err, "message 13 of BACK-IN was stored", "partition 0 has read one stored", "the input has other messages than before", "restore the store")
	if err, ok := r.counters.Status().Partitions[1].Err, r.counters.Status().Partitions[1].Phase == pipeline.Reading; err != nil || !ok {
		t.Errorf("partition 1, whose history stands: %v", err)
	}
	r.cancel()
	mentions(t, r.waitForEnd(t), "the input has other messages than before")
	if got := b.readPredictions(c.Job); len(got[keys[0]]) != 9 || len(got[keys[1]]) != 7 {
		t.Errorf("%d and %d predictions, want 9, of what was read before, and 7", len(got[keys[0]]), len(got[keys[1]]))
	}
}

// A partition without new messages detects the change through the watch.
func TestInputGoesBackUnderSilence(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.newRig()
	c := pipeline.Config{Job: "quiet", Partitions: 2, Lease: 300 * time.Millisecond}
	r := b.startStage(m, c)
	keys := map[int]string{}
	for i := 0; len(keys) < 2; i++ {
		keys[wire.PartitionOf(fmt.Sprint("k", i), 2)] = fmt.Sprint("k", i)
	}
	b.publishPackets(endedSequences(keys[1], 4, 1))
	b.settleMessages(r, 4)
	putBack := p.keepStreams(wire.InputStream(c.Job))
	b = p.newRig()
	b.publishPackets(endedSequences(keys[0], 5, 2))
	b.settleMessages(r, 9)
	p.srv.Close()
	putBack()
	p.whileAlone(func(b *rig) { b.publishPackets(endedSequences(keys[1], 10, 3)) }) // 5 to 14: nothing for partition 0
	p.startServer(p.port)
	r.waitUntil(t, "stop of partition 0, and partition 1 at work", func(s pipeline.Stats) bool { return s.Stopped == 1 && s.Predictions == 9+10 })
	mentions(t, r.counters.Status().Partitions[0].Err, "the input has other messages than before")
	r.cancel()
	_ = r.waitForEnd(t)
}

// The record of a worker killed in the middle of a split commit depends on messages
// after its digest's message. The next owner detects the loss of these messages and the
// reuse of their numbers.
func TestInputGoesBackBehindASplitCommit(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("split", 1)
	r := b.startStage(m, c)
	var marks []wire.Record
	for i := range 3 {
		b.publishPackets(endedSequences("s", 1, float32(i)))
		b.settleMessages(r, i+1)
		_, rec := b.lastRecord(c.Job, 0)
		marks = append(marks, rec)
	}
	r.crashStage(t)
	b.expireMembers(c.Job)
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for name, halfWay := range map[string]wire.Position{"one of its messages": {InSeq: 2, Outs: 3}, "part of the next message": {InSeq: 1, Ahead: 1, Outs: 3}} {
		// As committed in the middle: the digest is of the state before the batch.
		rec := marks[0]
		rec.Kind, rec.Position = wire.KindCommit, halfWay
		rec.Rests = wire.Place{Seq: 2, Stored: marks[1].Mark.Time}
		publish := func(rec wire.Record) {
			t.Helper()
			if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.OutputSubject(c.Job, 0), Header: rec.Header()}); err != nil {
				t.Fatal(err)
			}
		}
		publish(rec)
		if _, got := b.lastRecord(c.Job, 0); got != rec {
			t.Fatalf("%s: record %+v came back as %+v", name, rec, got)
		}
		rec.Rests.Stored++ // as if the message had been another when it was answered
		publish(rec)
		s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		mentions(t, s.Run(ctx), "message 2 of SPLIT-IN was stored", "the input has other messages than before")
		cancel()
		rec.Rests.Stored, rec.Rests.Seq = 0, 99
		publish(rec)
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		mentions(t, s.Run(ctx), "SPLIT-IN ends at message 3, but partition 0 has read message 99")
		cancel()
		rec.Rests = wire.Place{Seq: 2, Stored: marks[1].Mark.Time}
		publish(rec)
	}
	if err := in.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mentions(t, s.Run(ctx), "message 2 of SPLIT-IN, which partition 0 has read, was deleted")
}
