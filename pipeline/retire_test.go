package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// An output that went back names a snapshot replaced since. The snapshot still exists;
// otherwise an earlier snapshot or the whole input serves.
func TestOutputGoesBack(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	for name, lose := range map[string]func(b *rig, job string, r wire.Record){
		"the replaced snapshot is kept": func(*rig, string, wire.Record) {},
		"an earlier one is there": func(b *rig, job string, r wire.Record) {
			b.dropSnapshot(job, r.Snap)
		},
		"an earlier one is there, and one of another history": func(b *rig, job string, r wire.Record) {
			b.dropSnapshot(job, r.Snap)
			b.otherHistory(job, r.SnapSeq)
		},
		"no snapshot at all": func(b *rig, job string, r wire.Record) {
			b.removeStream(wire.SnapshotStream(job))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			b := p.newRig()
			b.keep = time.Hour
			c := quickConfig("older", 1)
			c.SnapshotMessages, c.MaxSlots = 3, 4 // rows are stored apart
			var packets []pipelinetest.Packet
			for i := range 60 {
				packets = append(packets, pipelinetest.One(fmt.Sprint("k", i%9), uint64(i/9+1), 2, float32(i)/9, i/9%2 == 1))
			}
			feed := func(b *rig, r *running, from, to int) {
				for i := from; i < to; i += 4 {
					b.publishPackets(packets[i:min(i+4, to)])
					b.settleMessages(r, min(i+4, to))
				}
			}
			r := b.startStage(m, c)
			feed(b, r, 0, 24)
			r.waitUntil(t, "two snapshots", func(s pipeline.Stats) bool { return s.Snapshots >= 2 })
			feed(b, r, 24, 40)
			r.crashStage(t)
			putBack := p.keepStreams(wire.OutputStream(c.Job))
			b = p.newRig()
			b.keep = time.Hour
			_, old := b.lastRecord(c.Job, 0)
			b.expireMembers(c.Job)
			r = b.startStage(m, c)
			feed(b, r, 40, 60)
			want := b.readPredictions(c.Job)
			r.crashStage(t)
			p.srv.Close()
			putBack()
			p.startServer(p.port)
			b = p.newRig()
			b.keep = time.Hour
			b.expireMembers(c.Job)
			if _, now := b.lastRecord(c.Job, 0); now != old || now.Snap == "" {
				t.Fatalf("the record is %+v, want %+v", now, old)
			}
			lose(b, c.Job, old)
			r = b.launchStage(m, c, pipelinetest.Generic)
			got := b.awaitPredictions(c.Job, count(want))
			r.stopStage(t)
			same(t, got, want)
		})
	}
}

// otherHistory stores one more snapshot, after the latest input message up to seq with
// a snapshot: as if the input had been another then.
func (b *rig) otherHistory(job string, seq uint64) {
	b.t.Helper()
	s, err := store.FindSnapshots(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	all, err := s.Entries(b.t.Context(), 0)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range all { // one is deleted and has left a marker
		raw, err := s.Get(b.t.Context(), e.Name)
		if e.Seq > seq || err != nil {
			continue
		}
		sh, _, err := state.ShapeIn(raw)
		if err != nil {
			b.t.Fatal(err)
		}
		p, err := state.Decode(raw, sh, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		p.DoneTime--
		for _, src := range p.Sources {
			src.Last++
		}
		if raw, err = p.Encode(sh, state.DecodedRows{}); err == nil {
			err = s.Put(b.t.Context(), wire.SnapshotName(0, e.Epoch+10, e.Seq), raw)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return
	}
	b.t.Fatal("there is no earlier snapshot")
}

func (b *rig) dropSnapshot(job, name string) {
	b.t.Helper()
	store, err := b.js.ObjectStore(b.t.Context(), wire.SnapshotBucket(job))
	if err == nil {
		err = store.Delete(b.t.Context(), name)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// A partition with snapshots and without a record is not begun a second time: all of
// its input would be answered a second time.
func TestRecordLost(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("bare", 1)
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 1, 2, 1, true)}, 1)
	out, err := b.js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err == nil {
		err = out.Purge(t.Context(), jetstream.WithPurgeSubject(wire.OutputSubject(c.Job, 0)))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	mentions(t, s.Run(ctx), "bare.out.0 holds no record", "snapshot of the partition, p0.e1.1", "restore BARE-OUT; without a backup", "the input of job bare")
}
