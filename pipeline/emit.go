package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
)

// emitter publishes a shard's answers and commits them. It belongs to one
// goroutine.
type emitter struct {
	js       jetstream.JetStream
	link     *store.Link // of js
	job      string
	encoder  *codec.PredictionEncoder
	limit    int // bytes of an output message's body
	counters *stats.Counters
	releases sync.WaitGroup // uploads and last records, each in its goroutine
	reading  sync.WaitGroup // records, before a commit

	commits int   // of the batch in hand
	cursor  []int // by partition.index: predictions of the batch already published, -1 = nothing more to say
}

// run publishes batches until in is closed.
func (e *emitter) run(ctx context.Context, in <-chan *batch, free chan<- *batch) {
	for b := range in {
		e.publish(ctx, b)
		free <- b // room for every batch there is
	}
	e.releases.Wait()
}

// publish makes a batch's answers durable: first its dead letters, then the
// predictions with the position that covers both. What goes wrong concerns one
// partition, and ends its ownership.
func (e *emitter) publish(ctx context.Context, b *batch) {
	start := time.Now()
	for i := range b.dead {
		d := &b.dead[i]
		if d.part.failed() {
			continue
		}
		if err := e.publishDead(ctx, d); err != nil {
			d.part.owner.fail(err)
			continue
		}
		e.counters.DeadLetters[d.Why].Add(1)
	}
	for _, i := range b.touched {
		e.cursor[i] = 0
	}
	e.commits = 0
	for more := true; more; {
		more = e.round(ctx, b)
	}
	for _, i := range b.touched {
		a := &b.answers[i]
		a.part.owner.trackUnsaved(a.inSeq, start)
		e.finish(ctx, a)
	}
	c, took := e.counters, int64(time.Since(start))
	c.CommitNS.Add(took)
	if e.commits > 0 {
		c.CommitTime.Add(stats.CommitBounds, took)
	}
	c.Messages.Add(uint64(b.fx.Used))
	c.Rows.Add(uint64(b.fx.Rows))
	c.Bytes.Add(uint64(b.fx.Bytes))
	c.Early.Add(uint64(b.fx.Early))
	for _, i := range b.touched { // last: when nothing waits, all is counted
		a := &b.answers[i]
		a.part.waiting.Add(-int64(a.messages))
	}
}

// round commits one message on every partition that has something to say,
// side by side, and reports whether any has more. An answer without
// predictions and dead letters needs no commit: a replay repeats it.
func (e *emitter) round(ctx context.Context, b *batch) (more bool) {
	e.reassure(ctx, b)
	for _, i := range b.touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.answers[i]
		t, from := a.part.owner, e.cursor[i]
		if !a.due(from) {
			e.cursor[i] = -1
			continue
		}
		body, to, err := e.encode(a, from)
		if err != nil {
			t.fail(err)
			e.cursor[i] = -1
			continue
		}
		t.c.begin(body, t.c.advance(a, from, to, t.ready.Load()))
		e.cursor[i] = to
	}
	for _, i := range b.touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.answers[i]
		t, to := a.part.owner, e.cursor[i]
		outs := t.c.Outs
		if err := e.await(ctx, t); err != nil {
			t.fail(err)
			e.cursor[i] = -1
			continue
		}
		e.commits++
		e.counters.Grade(a.Preds[to-int(t.c.Outs-outs) : to])
		if e.cursor[i] == len(a.Preds) {
			e.cursor[i] = -1
		}
		more = more || e.cursor[i] >= 0
	}
	return more
}

// due reports whether an answer whose first predictions are out has something
// to commit.
func (a *answer) due(from int) bool {
	c := a.part.owner.c
	return !a.part.failed() && (from < len(a.Preds) || from == 0 && (a.dead && c.InSeq < a.inSeq || a.commit && c.InSeq <= a.inSeq))
}

// reassure reads the records that are not sure any more, side by side, of the
// partitions that are about to commit.
func (e *emitter) reassure(ctx context.Context, b *batch) {
	for _, i := range b.touched {
		a := &b.answers[i]
		if e.cursor[i] < 0 || !a.due(e.cursor[i]) || a.part.owner.c.sure(a.part.owner.c.heard) {
			continue
		}
		c := a.part.owner.c
		e.reading.Go(func() { c.reassure(ctx) })
	}
	e.reading.Wait()
}

// await waits for a commit, and deletes the snapshot that it put out of use.
func (e *emitter) await(ctx context.Context, t *ownership) error {
	snap := t.c.Snap
	if err := t.c.await(ctx); err != nil {
		return err
	}
	e.counters.Commits.Add(1)
	t.taken()
	if now := t.ready.Load(); now != nil && now.name == t.c.Snap { // perhaps the same name as before: see ownership.unstored
		t.bucketAge.Store(now.bucketAge)
		t.unsaved.Store(0)
		if t.answered > now.seq {
			t.unsaved.Store(now.at.UnixNano())
		}
		t.ready.CompareAndSwap(now, nil)
	}
	if t.c.Snap != snap {
		t.saved.Store(t.c.SnapSeq)
		old, rows := t.retire(snap, t.freedBy(t.c.SnapSeq), time.Now())
		if len(old)+len(rows) > 0 { // rows may come and go before the first snapshot
			e.releases.Go(func() {
				for _, name := range old {
					t.snaps.Remove(ctx, name, t.log)
				}
				t.snaps.RemoveRows(ctx, rows, t.log)
			})
		}
	}
	return nil
}
