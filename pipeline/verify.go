package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
)

// Verification is the outcome of Stage.Verify.
type Verification struct {
	Partition int    `json:"partition"`
	Snapshot  string `json:"snapshot"` // where it began, empty = from the first message
	Replayed  uint64 `json:"replayed"` // input messages
	InSeq     uint64 `json:"in_seq"`   // up to which the digests were compared
	Digest    string `json:"digest"`   // of the state rebuilt
	Recorded  string `json:"recorded"` // of the state the stage had
}

// Verify rebuilds a partition's state from its snapshot and the input, on an
// engine of its own, and compares its digest with the one committed. Config,
// Model and NewEngine must be the running stage's; nothing else is used. The
// error says what differs. It disturbs no running stage.
func (s *Stage) Verify(ctx context.Context, js jetstream.JetStream, part int) (v Verification, err error) {
	j, snaps, err := openStored(ctx, js, s.Config.WithDefaults().Job)
	if err != nil {
		return Verification{Partition: part}, err
	}
	err = still(ctx, j, part, func() error {
		v, err = s.verify(ctx, j, snaps, part)
		return err
	})
	return v, err
}

func (s *Stage) verify(ctx context.Context, j *store.Job, snaps *store.Snapshots, part int) (Verification, error) {
	v := Verification{Partition: part}
	alone := *s
	alone.Dial = func(string) (*nats.Conn, error) { return nil, errors.New("pipeline: verify opens no connection") }
	r, err := alone.prepare()
	if err != nil {
		return v, err
	}
	js := j.JS
	r.js, r.in, r.out, r.snaps = js, j.In, j.Out, snaps
	c := &committer{stream: j.Out, job: r.cfg.Job, part: part}
	if c.Record, err = j.Record(ctx, part); err != nil {
		return v, err
	}
	if c.Mark.Seq == 0 {
		return v, nil // nothing was ever committed
	}
	r.cfg.MaxSlots = mostSlots // rows are read from the store, none are stored there
	sh, err := newShard(r.cfg, r.Model, r.head, r.NewEngine, r.counters, r.log)
	if err != nil {
		return v, err
	}
	c.ours, sh.machine.Shape.Width = sh.arithmetic, 0 // the stage's own policy on missing values
	sh.store, sh.last = snaps, ctx
	defer func() { sh.pool.engine.Close() }() // the one it has grown to
	if !c.Continues(c.ours) {
		return v, c.otherArithmetic(c.Record)
	}
	if c.model = sh.machine.Shape.Identity(); c.model.Differs(c.Identity) != "" { // whatever the readout
		return v, c.otherIdentity(c.Record)
	}
	if err := c.OtherVersion(); err != nil {
		return v, fmt.Errorf("pipeline: the record on %s: %w", c.subject(), err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.workers = ctx
	t := &ownership{run: r, shard: sh, c: c, part: newPartition(part, 0), ctx: ctx, stop: cancel}
	t.part.owner = t
	v.Snapshot, v.InSeq, v.Recorded = c.Snap, c.Mark.Seq, c.Mark.Digest.String()
	if err = t.rebuild(js); err == nil {
		v.Snapshot = t.began
	}
	v.Digest, v.Replayed = t.part.rebuiltSum.String(), r.counters.Replayed.Load()
	return v, err
}

// rebuild takes an ownership's partition to its mark, without a claim.
func (t *ownership) rebuild(js jetstream.JetStream) error {
	if err := t.checkInput(t.ctx); err != nil {
		return err
	}
	if t.c.Snap != "" {
		if err := t.restore(); err != nil {
			return err
		}
	}
	t.part.state.ReplayTo = t.c.Mark.Seq
	// A damaged row that nobody asks for is a fault all the same.
	if err := storedRows(t.ctx, t.snaps, t.part.state, t.shard.machine.Shape.Words, func(*state.Stream, int, []uint32) {}); err != nil {
		return err
	}
	b := newBatch(1)
	if err := t.shard.install(b, t.part); err != nil || t.err() != nil || t.part.state.Want.At == 0 {
		return errors.Join(err, t.err())
	}
	rd, err := receive(t.ctx, js, t.cfg.Job, t.part, t.part.state.Done+1, maxPull, t.shard, t.same, t.fail)
	if err != nil {
		return err
	}
	defer rd.end(closeDeadline)
	defer t.stop() // first: a callback may wait for room in the queue
	for t.part.state.Want.At > 0 && t.ctx.Err() == nil {
		b.reset()
		err := t.shard.collect(t.ctx, b)
		if err == nil {
			err = t.shard.advance(b)
		}
		if err == nil {
			err = t.shard.finalise(b)
		}
		if err != nil {
			return err
		}
	}
	if err := t.err(); err != nil {
		return err
	}
	if t.part.state.Want.At > 0 {
		return t.ctx.Err()
	}
	return nil
}
