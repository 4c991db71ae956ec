package owner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Emitter publishes and commits a shard's answers. An Emitter belongs to one goroutine.
type Emitter struct {
	dead     *store.DeadLetters
	splitter Splitter
	counters *stats.Counters
	releases sync.WaitGroup // uploads and last records, one goroutine each
	reading  sync.WaitGroup // records, before a commit

	commits int      // of the batch in hand
	cursor  []int    // by partition.index: published predictions of the batch, -1 = nothing left
	bodies  [][]byte // by partition.index: message bodies of the current commits
	from    []int    // by partition.index: first predictions of the current commits
	shadows shadowing
	carries carrying
	traces  tracing
}

// NewEmitter makes the emitter of a shard with the given number of partitions. first
// names the job's first readout in predictions after another readout was promoted;
// limit is the largest message body accepted by the server, bytes.
func NewEmitter(dead *store.DeadLetters, meta codec.PredictionMeta, first string, limit, partitions int, counters *stats.Counters) (*Emitter, error) {
	enc, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	meta.First = first
	named, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return &Emitter{
		dead: dead, splitter: Splitter{enc, named, limit}, counters: counters,
		cursor: make([]int, partitions), bodies: make([][]byte, partitions), from: make([]int, partitions),
		shadows: shadowing{meta: meta, first: first, limit: limit, encoders: map[string]*codec.PredictionEncoder{}},
	}, nil
}

// SetTracer sets the receiver of a job's spans. Call SetTracer before the emitter runs.
func (e *Emitter) SetTracer(t trace.Tracer, job string) {
	e.traces = tracing{tracer: t, job: job, commits: make([][]commit, len(e.cursor))}
}

// Run publishes batches until in is closed.
func (e *Emitter) Run(ctx context.Context, in <-chan *shard.Batch, free chan<- *shard.Batch) {
	for b := range in {
		e.publishBatch(ctx, b)
		free <- b // capacity for all batches
	}
	e.releases.Wait()
}

// publishBatch makes a batch's answers durable: first dead letters, then predictions
// with the position that covers both. A fault concerns a single partition, and ends the
// partition's ownership.
func (e *Emitter) publishBatch(ctx context.Context, b *shard.Batch) {
	start := time.Now()
	e.publishDead(ctx, b)
	for _, i := range b.Touched {
		e.cursor[i] = 0
		if a := &b.Answers[i]; a.Tick && !a.Part.Failed() {
			a.Commit = ownerOf(a.Part).hasToSay(a.InSeq) || a.Commit
		}
	}
	e.commits = 0
	for more := true; more; {
		more = e.publishRound(ctx, b)
	}
	for _, i := range b.Touched {
		a := &b.Answers[i]
		t := ownerOf(a.Part)
		if a.InSeq > t.Input.replayed && !t.Failed() {
			t.storing.noteAnswer(a.InSeq, start)
		}
		if len(a.Traced) > 0 {
			t.untold = e.traces.sendSpans(e.traces.finishCommit(i, b, a, t.untold), t.c.Record.InSeq)
		}
		e.finishAnswer(ctx, a)
	}
	c, end := e.counters, time.Now()
	took := int64(end.Sub(start))
	c.Spent.Commit.Add(took)
	if e.commits > 0 {
		c.CommitTime.AddValue(stats.CommitBounds, took)
	}
	c.Messages.Add(uint64(b.Fx.Used))
	c.Rows.Add(uint64(b.Fx.Rows))
	c.Bytes.Add(uint64(b.Fx.Bytes))
	c.Early.Add(uint64(b.Fx.Early))
	if b.Fx.Rows > 0 {
		c.Answered.Store(end.UnixNano())
	}
	for _, i := range b.Touched { // last: when nothing waits, all is counted
		a := &b.Answers[i]
		if !a.Part.Failed() && a.InSeq > a.Part.Answered.Load() { // before Waiting, which readers load first
			a.Part.Answered.Store(a.InSeq)
		}
		a.Part.Waiting.Add(-int64(a.Messages))
	}
}

// publishDead publishes a batch's dead letters.
func (e *Emitter) publishDead(ctx context.Context, b *shard.Batch) {
	for i := range b.Dead {
		d := &b.Dead[i]
		if d.Part.Failed() {
			continue
		}
		letter := store.DeadLetter{Part: d.Part.State.ID, Seq: d.Msg.Seq, Key: d.Msg.Key, Header: d.Msg.Header, Data: d.Msg.Data, Reason: d.Why, Text: d.Reason}
		if err := e.dead.Publish(ctx, &letter, ownerOf(d.Part)); err != nil {
			d.Part.Owner.Fail(err)
			continue
		}
		e.counters.DeadLetters[d.Why].Add(1)
	}
}

// publishRound commits one message on every partition with something to commit, in
// parallel, and reports whether any partition has more. An answer without predictions
// and dead letters needs no commit: a replay repeats it.
func (e *Emitter) publishRound(ctx context.Context, b *shard.Batch) (more bool) {
	e.encodeAnswers(ctx, b)
	e.shadows.awaitShadows(ctx)
	e.reassureOwners(ctx, b) // last: an answer is not relied on for long
	for _, i := range b.Touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.Answers[i]
		t, to := ownerOf(a.Part), e.cursor[i]
		next := recordAfter(t.c.Record, a, e.from[i], to, t.storing.unnamedSnapshot(), t.Input.emptyAfter(a.InSeq))
		next.Promoted.Known = max(next.Promoted.Known, t.promoting.wanted.Load())
		t.c.BeginPublish(e.bodies[i], next, e.traces.beginCommit(i, a, e.from[i], to))
	}
	for _, i := range b.Touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.Answers[i]
		t, to := ownerOf(a.Part), e.cursor[i]
		outs := t.c.Record.Outs
		if err := e.awaitCommit(ctx, t); err != nil {
			t.Fail(err)
			e.cursor[i] = -1
			continue
		}
		e.commits++
		e.traces.noteStored(i)
		e.counters.CountGrades(a.Preds[to-int(t.c.Record.Outs-outs) : to])
		if e.cursor[i] == len(a.Preds) {
			e.cursor[i] = -1
		}
		more = more || e.cursor[i] >= 0
	}
	return more
}

// encodeAnswers encodes the bodies of the next commits, and publishes the shadows'
// predictions and the predictions with features.
func (e *Emitter) encodeAnswers(ctx context.Context, b *shard.Batch) {
	for _, i := range b.Touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.Answers[i]
		t, from := ownerOf(a.Part), e.cursor[i]
		if !isAnswerDue(a, from) {
			e.cursor[i] = -1
			continue
		}
		body, to, err := e.splitter.Encode(a, from)
		if err == nil {
			err = e.carries.publishFeatures(ctx, a, from, to, t.c.Record.Outs)
		}
		if err != nil {
			t.Fail(err)
			e.cursor[i] = -1
			continue
		}
		e.bodies[i], e.from[i], e.cursor[i] = body, from, to
		e.shadows.publishShadows(b, a, from, to, t.c.Record.Outs+uint64(to-from))
	}
}

// isAnswerDue reports whether an answer has something to commit after its published
// predictions. A commit without predictions only moves the position, and declares that
// no predictions follow: it is not allowed while some predictions of a later message
// are published.
func isAnswerDue(a *shard.Answer, from int) bool {
	if a.Part.Failed() {
		return false
	}
	r := &ownerOf(a.Part).c.Record
	moves := a.Dead && r.InSeq < a.InSeq || a.Commit && r.InSeq <= a.InSeq
	return from < len(a.Preds) || from == 0 && r.Ahead == 0 && moves
}

// reassureOwners re-reads the uncertain records, in parallel, for the partitions before
// their commit.
func (e *Emitter) reassureOwners(ctx context.Context, b *shard.Batch) {
	for _, i := range b.Touched {
		c := ownerOf(b.Answers[i].Part).c
		if e.cursor[i] < 0 || c.IsSure(c.Heard) {
			continue
		}
		e.reading.Go(func() { c.Reassure(ctx) })
	}
	e.reading.Wait()
}

// awaitCommit waits for a commit, and deletes the replaced snapshot.
func (e *Emitter) awaitCommit(ctx context.Context, t *Ownership) error {
	snap := t.c.Record.Snap
	if err := t.c.AwaitPublish(ctx); err != nil {
		return err
	}
	e.counters.Commits.Add(1)
	t.NoteTaken()
	t.promoting.noteRecorded(t.c.Record.Promoted)
	if len(t.untold) > 0 {
		t.untold = e.traces.sendSpans(t.untold, t.c.Record.InSeq)
	}
	name, seq := t.c.Record.Snap, t.c.Record.SnapSeq
	rows := t.storing.noteNamed(name, seq, name != snap)
	if name != snap {
		old, rows := t.keeping.retireSnapshots(snap, rows, t.w.Keep, time.Now())
		if len(old)+len(rows) > 0 { // rows may come and go before the first snapshot
			e.releases.Go(func() {
				for _, name := range old {
					t.w.Server.Snaps.Remove(ctx, name, t.w.Log)
				}
				t.w.Server.Snaps.RemoveRows(ctx, rows, t.w.Log)
			})
		}
	}
	return nil
}

// ownerOf returns the ownership of a partition.
func ownerOf(p *shard.Partition) *Ownership { return p.Owner.(*Ownership) }
