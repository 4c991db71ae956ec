package operate

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// digests are sums over all partitions, equal before and after the change.
type digests struct {
	Keys    wire.Digest // state.Partition.DigestOfKeys
	Streams int
}

// classCount returns the number of sets of partitions that exchange keys only within the
// set: the remainder of a key's hash by this number is the same for both numbers of
// partitions, before and after.
func classCount(from, to int) int {
	for to != 0 {
		from, to = to, from%to
	}
	return from
}

// classMembers are the partitions of a class.
func classMembers(class, classes, partitions int) (all []int) {
	for p := class; p < partitions; p += classes {
		all = append(all, p)
	}
	return all
}

// redistributeKeys moves every key's state to its new partition, and stores the result,
// a class of partitions at a time. Earlier data stays untouched.
func (j *change) redistributeKeys(ctx context.Context) error {
	r := j.entry.Resize
	n := classCount(r.Partitions, r.To)
	for class := range n {
		before, old, err := j.loadStates(ctx, j.ownStates(), classMembers(class, n, r.Partitions))
		if err != nil {
			return err
		}
		made, err := state.Redistribute(old, classMembers(class, n, r.To), func(key string) int { return j.in.Pattern.PartitionOf(key, r.To) }, wire.Place{Seq: r.Cut, Stored: r.Stored})
		if err != nil {
			return err
		}
		var after digests
		for _, p := range made {
			if p.Len() > j.largest {
				return fmt.Errorf("pipeline: partition %d of %d would have %d streams, but max streams (stage.max_streams) is %d: raise it (to stay), and run the command again; until then nobody works on the job, and nothing is lost", p.ID, r.To, p.Len(), j.largest)
			}
			if err := j.putState(ctx, p, &after); err != nil {
				return err
			}
		}
		if after != before {
			return fmt.Errorf("pipeline: the keys of partitions %v have the digest %v (%d streams), but %v (%d streams) after they were given to partitions %v: this is a fault of the program or of the server's store; the states of before are untouched",
				classMembers(class, n, r.Partitions), before.Keys, before.Streams, after.Keys, after.Streams, classMembers(class, n, r.To))
		}
		j.reportStep(r.Step, class+1, n)
	}
	r.Step = wire.ResizePublish
	return j.noteStep(ctx, r)
}

// held is the place of a job's states.
type held struct {
	name  string
	out   jetstream.Stream
	snaps *store.Snapshots
	shape state.Shape
}

// ownStates returns the location of the job's states, in their final shape.
func (j *change) ownStates() held { return held{j.name, j.out, j.snaps, j.shape} }

// loadStates reads the states of some old partitions, and compares each with the digest
// in its record.
func (j *change) loadStates(ctx context.Context, from held, parts []int) (sum digests, all []*state.Partition, err error) {
	for _, p := range parts {
		r, _, err := store.ReadRecord(ctx, from.out, from.name, p)
		if err != nil {
			return sum, nil, err
		}
		if r.Snap == "" {
			continue // a partition without any message
		}
		part, err := from.readSnapshot(ctx, r.Snap, p)
		if err != nil {
			return sum, nil, err
		}
		digest, err := part.Digest()
		if err != nil {
			return sum, nil, err
		}
		if r.Mark.Seq > 0 && digest != r.Mark.Digest {
			return sum, nil, fmt.Errorf("pipeline: snapshot %s of partition %d has digest %v, but its record has %v: restore the job's NATS streams; nothing was changed", r.Snap, p, digest, r.Mark.Digest)
		}
		if err := sum.addPartition(part); err != nil {
			return sum, nil, err
		}
		all = append(all, part)
	}
	return sum, all, nil
}

func (d *digests) addPartition(p *state.Partition) error {
	digest, err := p.DigestOfKeys()
	d.Keys.Add(digest)
	d.Streams += p.Len()
	return err
}

// readSnapshot reads a snapshot, with the stored rows.
func (h held) readSnapshot(ctx context.Context, name string, part int) (*state.Partition, error) {
	b, err := h.snaps.Get(ctx, name)
	if err == nil {
		b, err = owner.IncludeRows(ctx, h.snaps, b)
	}
	var p *state.Partition
	if err == nil {
		p, err = state.Decode(b, h.shape, part)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s of partition %d: %w", name, part, err)
	}
	return p, nil
}

// putState stores a new partition's state, reads it back, and adds the result to the
// sum.
func (j *change) putState(ctx context.Context, p *state.Partition, sum *digests) error {
	r := j.entry.Resize
	name := wire.SnapshotName(p.ID, r.Epoch, r.Cut)
	if err := j.beforeWrite("snapshot " + name); err != nil {
		return err
	}
	b, err := p.Encode(j.shape, state.DecodedRows{})
	if err != nil {
		return err
	}
	if err := j.snaps.Put(ctx, name, b); err != nil {
		return err
	}
	if err := j.beforeWrite("check " + name); err != nil {
		return err
	}
	back, err := j.ownStates().readSnapshot(ctx, name, p.ID)
	if err != nil {
		return err
	}
	return sum.addPartition(back)
}

// publishRecords gives the new partitions their records, and ends the change.
func (j *change) publishRecords(ctx context.Context) error { return j.publishAs(ctx, j.entry) }

// publishAs is publishRecords with another next entry, for changes other than Resize.
func (j *change) publishAs(ctx context.Context, next wire.Entry) error {
	r := j.entry.Resize
	info, err := j.in.Info(ctx, r.Cut)
	if err != nil {
		return err
	}
	for p := range r.To {
		begin := wire.Record{
			Kind: wire.KindReleased, Created: wire.CreatedText(info.Created),
			Snap: wire.SnapshotName(p, r.Epoch, r.Cut), SnapSeq: r.Cut,
			Arithmetic: next.Arithmetic, Identity: next.Identity, Generation: r.Generation + 1,
		}
		part, err := j.ownStates().readSnapshot(ctx, begin.Snap, p)
		if err != nil {
			return err
		}
		if now := part.Promotion(); now.Number > 0 {
			begin.Promoted = wire.Promoted{Known: now.Number, Number: now.Number, At: now.At, Readout: now.Readout}
		}
		begin.InSeq = r.Cut
		begin.Mark = wire.Mark{Seq: r.Cut, Time: r.Stored}
		if begin.Mark.Digest, err = part.Digest(); err != nil {
			return err
		}
		err = j.rewriteRecord(ctx, p, func(now *wire.Record, _ uint64) bool {
			if now.Generation == begin.Generation && now.Snap == begin.Snap {
				return false
			}
			then := begin
			then.Outs, then.Epoch = now.Outs, max(now.Epoch+1, r.Epoch)
			*now = then
			return true
		})
		if err != nil {
			return err
		}
		j.reportStep(r.Step, p+1, r.To)
	}
	next.Resize = wire.Resize{Generation: r.Generation + 1, Partitions: r.To}
	if err := j.beforeWrite("note "); err != nil {
		return err
	}
	return j.writeEntry(ctx, next)
}
