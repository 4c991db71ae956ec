package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Past selects sequences of a partition to recompute.
type Past struct {
	Partition int
	To        uint64 // the last input message to read
	Network   string // as a record has it, of a job that runs another one now; empty: the job's
	// Of Features, but for Begun.
	Stream func(name string) bool
	Want   func(*Sequence) bool
	Take   func(*Sequence, []float32) error
	Keep   int // values of a sequence that Take gets with it (Sequence.Kept)

	Progress func(PastDone)
}

// PastDone is the range of a partition's computed past.
type PastDone struct {
	Created     time.Time // of the input
	First, Last uint64    // existing input messages of all partitions, up to Past.To
	// The computing began from this snapshot, of the state after input message
	// After; empty: with message First.
	Snapshot string
	After    uint64
	At       uint64 // the last message read
	Messages uint64 // read
	Deleted  int    // messages between First and the end of the log that somebody removed
	Unread   error  // the error of a needed but unusable snapshot
	// All reports that all partitions were read, because the job's keys were in other partitions earlier.
	All bool

	begins uint64 // the job's first message
}

// Whole reports whether the computation had all messages that the job has read.
func (d *PastDone) Whole() bool { return d.Snapshot != "" || d.First <= max(1, d.begins) }

// ReadPast recomputes a part of a partition's past, on an engine of its own, with the stage's code, and hands out the
// features of sequences. The features have the stage's bits if the log has all messages, or a snapshot replaces the
// lost messages. The job's Dial is not used. Messages are read as the job reads them. Nothing is published.
func ReadPast(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, o Past) (done PastDone, err error) {
	p, err := openPast(ctx, js, job, o.Partition, o.Network)
	if err != nil {
		return done, err
	}
	defer p.shard.Close()
	info, err := p.in.Info(ctx, 0)
	if err != nil {
		return done, err
	}
	done = p.donePast(info, min(o.To, info.State.LastSeq))
	if err := p.begin(ctx, &done); err != nil {
		return done, err
	}
	if done.All = p.only == ""; done.All { // one takes the keys of all
		m := p.shard.Machine
		m.MaxStreams, m.ReorderBytes = m.MaxStreams*p.stored.Partitions, m.ReorderBytes*p.stored.Partitions
	}
	p.direct.FollowSequences(shard.Followed{Stream: o.Stream, Want: o.Want, Take: o.Take, Keep: o.Keep})
	compute := func() error { _, err := p.direct.ComputeFeatures(); return err }
	return done, p.read(ctx, &done, 0, compute, o.Progress)
}

// past is a partition's past, computed on a shard of its own with the settings of the stage's shards.
type past struct {
	*jobLog
	part   int
	shard  *shard.Shard
	snaps  *store.Snapshots
	direct *shard.Direct // has the state that was computed last
	only   string        // the subject to read after the beginning; empty: all
}

// openPast makes a shard of the job's network, or of the given network.
func openPast(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, part int, network string) (*past, error) {
	l, err := prepare(job)
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx, js, nil); err != nil {
		return nil, err
	}
	sh, err := l.newShard(l.shardConfig(), l.Log)
	if err != nil {
		return nil, err
	}
	sh.Machine.Begun = l.outputCreated()
	if what := sh.Machine.Shape.Identity().Differs(wire.Identity{Network: cmp.Or(network, l.entry.Network)}); what != "" {
		sh.Close()
		if network != "" && network != l.entry.Network {
			return nil, fmt.Errorf("pipeline: this was computed before job %q got the network of another job, with another %s than this model's: %w", l.stored.Name, what, pipeline.ErrOtherModel)
		}
		return nil, fmt.Errorf("pipeline: job %q runs with another %s than this model's: %w", l.stored.Name, what, pipeline.ErrOtherModel)
	}
	return &past{jobLog: l, part: part, shard: sh}, nil
}

// donePast describes the log up to message last.
func (p *past) donePast(info *jetstream.StreamInfo, last uint64) PastDone {
	return PastDone{Created: info.Created, First: info.State.FirstSeq, Last: last, Deleted: info.State.NumDeleted, begins: p.in.From}
}

// begin sets the first state, and the subject to read after it. If the log has all messages that the job has read,
// the first state is the log's. Otherwise the first state is the oldest snapshot without missing messages after it,
// or without a snapshot, the log's first state.
func (p *past) begin(ctx context.Context, done *PastDone) error {
	record, err := p.stored.Record(ctx, p.part)
	if err != nil {
		return err
	}
	p.only = p.in.Pattern.InputFilter(p.in.Job, p.part)
	if !done.Whole() {
		names, err := p.snapshots(ctx, record, done, done.Last)
		if err != nil {
			done.Unread = err
		}
		if p.beginFrom(ctx, names, done) {
			return nil
		}
	}
	if record.Generation > 0 { // the same keys were in other partitions before
		p.only = ""
	}
	p.direct, err = shard.NewDirectOf(p.shard, p.part, nil)
	return err
}

// beginFrom begins with the first usable snapshot, if there is one.
func (p *past) beginFrom(ctx context.Context, names []string, done *PastDone) bool {
	for _, name := range names {
		err := p.from(ctx, name, done)
		if err == nil {
			return true
		}
		done.Unread = err
	}
	return false
}

// snapshots returns the names of snapshots to begin from, of states before an input message, oldest first.
func (p *past) snapshots(ctx context.Context, record wire.Record, done *PastDone, before uint64) (names []string, err error) {
	snaps, err := store.FindSnapshots(ctx, p.stored.JS, p.stored.Name)
	if err != nil {
		return nil, err
	}
	p.snaps = snaps
	all, err := snaps.Entries(ctx, p.part)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(all) {
		if (e.Seq+1 >= done.First || e.Seq == done.Last) && e.Seq <= done.Last && e.Seq < before && (record.Generation == 0 || e.Name == record.Snap) {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// from begins with a snapshot.
func (p *past) from(ctx context.Context, name string, done *PastDone) error {
	data, err := p.snaps.Get(ctx, name)
	if err == nil {
		data, err = owner.IncludeRows(ctx, p.snaps, data)
	}
	if err == nil {
		p.direct, err = shard.NewDirectOf(p.shard, p.part, data)
	}
	if err == nil {
		st := p.direct.State()
		err = p.in.CheckUnchanged(ctx, p.part, wire.Place{Seq: st.Done, Stored: st.DoneTime})
	}
	if err != nil {
		return fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	done.Snapshot, done.After = name, p.direct.State().Done
	return nil
}

// read reads the log up to done.Last, after the message behind, and computes batch by batch. An error reports
// messages that were removed meanwhile.
func (p *past) read(ctx context.Context, done *PastDone, behind uint64, compute func() error, progress func(PastDone)) error {
	log := p.log(p.only)
	begin := max(done.First, done.After+1, behind+1)
	if err := log.Open(ctx, inlog.Place{}, begin, done.Last); err != nil {
		return err
	}
	defer log.Close()
	count := func(m *inlog.Message) bool {
		done.Messages++
		done.At = m.Seq
		return true
	}
	lost := done.First > 1 && done.Snapshot == "" && done.Messages == 0
	b := inlog.Batches{Source: log, Direct: p.direct, Lost: lost, Cut: !done.Whole(), Read: count}
	err := b.Run(ctx, func() error {
		err := compute()
		if err == nil && progress != nil {
			progress(*done)
		}
		return err
	})
	if err != nil {
		return err
	}
	info, err := p.in.Info(ctx, 0)
	if err == nil && info.State.FirstSeq > begin {
		err = fmt.Errorf("pipeline: %s began with message %d, and now with %d: what was removed meanwhile may not have been read: run the command again", info.Config.Name, begin, info.State.FirstSeq)
	}
	return err
}
