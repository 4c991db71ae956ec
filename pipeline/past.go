package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/backfill"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Past says which sequences of a partition are to be computed again.
type Past struct {
	Partition int
	To        uint64 // the last input message that is read
	Network   string // as a record has it, of a job that runs another one now; empty: the job's
	// Of Features, but for Begun.
	Stream func(name string) bool
	Want   func(*Sequence) bool
	Take   func(*Sequence, []float32) error
	Keep   int // values of a sequence that Take gets with it (Sequence.Kept)

	Progress func(PastDone)
}

// PastDone is from where a partition's past was computed, and how far.
type PastDone struct {
	Created     time.Time // of the input
	First, Last uint64    // input messages that there are, those of all partitions counted, as far as Past.To
	// The computing began from this snapshot, of the state after input message
	// After; empty: with message First.
	Snapshot string
	After    uint64
	At       uint64 // the last message read
	Messages uint64 // read
	Deleted  int    // messages between First and the end of the log that somebody removed
	Unread   error  // why a snapshot that is needed could not be used
	// All partitions were read, because the job's keys were in others before.
	All bool

	begins uint64 // the job's first message
}

// Whole reports whether nothing that the job has read was missing.
func (d *PastDone) Whole() bool { return d.Snapshot != "" || d.First <= max(1, d.begins) }

// Past computes a part of a partition's past again, on an engine of its own, as the
// stage did, with the stage's code, and hands out the features of sequences. They
// have the stage's bits where the log has all messages, or a snapshot holds what the
// log has lost. Config, Model and NewEngine are those of the stage; messages are read
// as the job reads them. Nothing is published.
func (s *Stage) Past(ctx context.Context, js jetstream.JetStream, o Past) (done PastDone, err error) {
	b, sh, err := s.past(ctx, js, o.Network)
	if err != nil {
		return done, err
	}
	defer sh.Close()
	info, err := b.in.Info(ctx, 0)
	if err != nil {
		return done, err
	}
	done = PastDone{Created: info.Created, First: info.State.FirstSeq, Last: min(o.To, info.State.LastSeq), Deleted: info.State.NumDeleted, begins: b.in.From}
	direct, only, err := b.begin(ctx, sh, o.Partition, &done)
	if err != nil {
		return done, err
	}
	if done.All = only == ""; done.All { // one takes the keys of all
		m := sh.Machine
		m.MaxStreams, m.ReorderBytes = m.MaxStreams*b.job.Partitions, m.ReorderBytes*b.job.Partitions
	}
	direct.Follow(shard.Followed{Stream: o.Stream, Want: o.Want, Take: o.Take, Keep: o.Keep})
	r := reading{log: &inlog.Log{Input: b.in, JS: js, Log: b.run.log, Only: only}, direct: direct, done: &done}
	r.computed = func() error {
		_, err := direct.Features()
		if err == nil && o.Progress != nil {
			o.Progress(done)
		}
		return err
	}
	return done, r.run(ctx)
}

// past is a shard beside the stage, set as the stage's are, of the job's network or the
// one that is given.
func (s *Stage) past(ctx context.Context, js jetstream.JetStream, network string) (*backfilling, *shard.Shard, error) {
	alone := *s
	alone.Dial = func(string) (*nats.Conn, error) { return nil, errors.New("pipeline: no connection is opened") }
	r, err := alone.prepare()
	if err != nil {
		return nil, nil, err
	}
	b := &backfilling{run: r}
	if err := b.of(ctx, js, nil); err != nil {
		return nil, nil, err
	}
	c := r.cfg.shard()
	c.MaxSlots, c.Idle, c.Forget, c.MaxKey = mostSlots, 0, 0, b.job.Pattern.MaxKey()
	sh, err := shard.New(c, s.Model, r.self.readout, s.NewEngine, r.counters, r.log)
	if err != nil {
		return nil, nil, err
	}
	sh.Machine.Begun = wire.CreatedText(b.job.Out.CachedInfo().Created)
	if what := sh.Machine.Shape.Identity().Differs(wire.Identity{Network: cmp.Or(network, b.entry.Network)}); what != "" {
		sh.Close()
		if network != "" && network != b.entry.Network {
			return nil, nil, fmt.Errorf("pipeline: this was computed before job %q got the network of another job, with another %s than this model's: %w", b.job.Name, what, ErrOtherModel)
		}
		return nil, nil, fmt.Errorf("pipeline: job %q runs with another %s than this model's: %w", b.job.Name, what, ErrOtherModel)
	}
	return b, sh, nil
}

// begin is the state to begin from, and the subject to read behind it; empty: all.
// Where the log has all that the job has read, the beginning is the log's. Elsewhere
// it is the oldest snapshot from which on nothing is missing, and if there is none,
// what the log has.
func (b *backfilling) begin(ctx context.Context, sh *shard.Shard, part int, done *PastDone) (*shard.Direct, string, error) {
	record, err := b.job.Record(ctx, part)
	if err != nil {
		return nil, "", err
	}
	only := b.in.Pattern.InputFilter(b.in.Job, part)
	if !done.Whole() {
		names, err := b.snapshots(ctx, part, record, done, done.Last)
		if err != nil {
			done.Unread = err
		}
		for _, name := range names {
			d, err := b.from(ctx, sh, part, name, done)
			if err == nil {
				return d, only, nil
			}
			done.Unread = err
		}
	}
	if record.Generation > 0 { // the same keys were in other partitions before
		only = ""
	}
	d, err := shard.NewDirectOf(sh, part, nil)
	return d, only, err
}

// snapshots are the names of those to begin from, of states before an input message, the
// oldest first.
func (b *backfilling) snapshots(ctx context.Context, part int, record wire.Record, done *PastDone, before uint64) (names []string, err error) {
	snaps, err := store.FindSnapshots(ctx, b.job.JS, b.job.Name)
	if err != nil {
		return nil, err
	}
	b.snaps = snaps
	all, err := snaps.Entries(ctx, part)
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
func (b *backfilling) from(ctx context.Context, sh *shard.Shard, part int, name string, done *PastDone) (*shard.Direct, error) {
	data, err := b.snaps.Get(ctx, name)
	if err == nil {
		data, err = owner.Whole(ctx, b.snaps, data)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	d, err := shard.NewDirectOf(sh, part, data)
	if err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	st := d.State()
	if err := b.in.Unchanged(ctx, part, wire.Place{Seq: st.Done, Stored: st.DoneTime}); err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	done.Snapshot, done.After = name, st.Done
	return d, nil
}

// reading is a log on its way through a partition that nobody owns.
type reading struct {
	log      *inlog.Log
	direct   *shard.Direct
	done     *PastDone
	behind   uint64       // nothing up to this message is read; 0 = as done says
	computed func() error // computes a batch
}

func (r *reading) run(ctx context.Context) error {
	begin := max(r.done.First, r.done.After+1, r.behind+1)
	if err := r.log.Open(ctx, inlog.Place{}, begin, r.done.Last); err != nil {
		return err
	}
	defer r.log.Close()
	for over := false; !over; {
		r.direct.Begin()
		for room := true; room; {
			m, err := r.log.Next(ctx)
			if over = errors.Is(err, io.EOF); over {
				break
			}
			if err != nil {
				return err
			}
			m.Lost = m.Lost || r.done.First > 1 && r.done.Snapshot == "" && r.done.Messages == 0
			if room, err = r.direct.Take(m.Message, m.Stored); err != nil {
				return err
			}
			r.done.Messages++
			r.done.At = m.Seq
		}
		if over && !r.done.Whole() {
			if err := backfill.Release(r.direct); err != nil {
				return err
			}
		}
		if err := r.computed(); err != nil {
			return err
		}
	}
	return r.remains(ctx, begin)
}

// remains makes sure that nothing of what was to be read was removed meanwhile.
func (r *reading) remains(ctx context.Context, begin uint64) error {
	info, err := r.log.Input.Info(ctx, 0)
	if err == nil && info.State.FirstSeq > begin {
		err = fmt.Errorf("pipeline: %s began with message %d, and now with %d: what was removed meanwhile may not have been read: run the command again", info.Config.Name, begin, info.State.FirstSeq)
	}
	return err
}
