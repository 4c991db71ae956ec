package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// owner applies the machine's effects on one partition to rows in memory.
type owner struct {
	*slots
	m      *Machine
	p      *Partition
	fx     *Effects
	out    Predictions
	given  int        // predictions whose runs have slots
	spread *rand.Rand // moves rows apart now and then; nil = never

	made   []made
	dead   []uint64
	failed bool // a run found no slot: nothing of the partition counts any more
}

// newOwner returns an owner of one partition, with any number of slots.
func newOwner(t testing.TB, r Rules) *owner {
	t.Helper()
	r.Channels, r.Mean = 1, []float32{0}
	r.Shape = Shape{Words: 2, states: r.Policy.States(), channels: 1, front: r.Front.StateSize(1)}
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"v"}})
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{slots: &slots{t: t, apart: map[uint64][2]uint32{}}, m: NewMachine(r, dec), fx: &Effects{}}
	o.holdPartition(NewPartition(0))
	return o
}

func (o *owner) holdPartition(p *Partition) { o.p, p.Holder = p, o }

// limitSlots limits the slots, so that rows leave and return.
func (o *owner) limitSlots(most int, chance *rand.Rand) *owner {
	o.most, o.chance = most, chance
	return o
}

// newNeighbor is another partition on the same machine, with the same slots.
func (o *owner) newNeighbor() *owner {
	n := &owner{slots: o.slots, m: o.m, fx: o.fx}
	n.holdPartition(NewPartition(1))
	return n
}

// feedMessages applies messages in batches; cut reports whether a batch ends after a
// message.
func (o *owner) feedMessages(messages []Message, cut func(seq uint64) bool) {
	o.t.Helper()
	for i := range messages {
		o.applyMessage(&messages[i])
		if cut(messages[i].Seq) {
			o.endBatch()
		}
	}
	o.endBatch()
}

// applyMessage applies one message in the batch.
func (o *owner) applyMessage(j *Message) {
	o.t.Helper()
	if o.failed {
		return
	}
	err := o.m.Apply(o.p, j, o.fx, &o.out)
	if err != nil {
		o.t.Fatal(err)
	}
	for _, d := range o.fx.Dead {
		o.dead = append(o.dead, d.Msg.Seq)
	}
	o.fx.Dead, o.fx.Notes, o.fx.Tally = nil, nil, Tally{}
	if err := o.assignSlots(); err != nil {
		o.failed = true
		o.failures++
	}
}

// assignSlots gives the runs of a message their slots.
func (o *owner) assignSlots() error {
	defer func() { o.fx.Runs = o.fx.Runs[:0] }()
	o.x = o.fx.X
	for _, r := range o.fx.Runs {
		st := r.Stream
		if r.Drop {
			o.freeSlots(st)
			continue
		}
		if st.Slots[r.Phase] < 0 {
			if err := o.placeRow(st, int(r.Phase), r.Reset); err != nil {
				return err
			}
		}
		o.markUsed(st)
		st.InUse = r.Open
		run := placed{slot: st.Slots[r.Phase], reset: r.Reset, from: int(r.From), to: int(r.To)}
		if r.Emit {
			if o.given == len(o.out.Preds) {
				o.t.Fatalf("partition %d is given a run whose prediction is not its own", o.p.ID)
			}
			p := o.out.Preds[o.given]
			run.made, run.next = &o.made, made{stream: p.Stream, seq: p.Seq, row: p.Row, flags: p.Flags, at: o.out.At[o.given], readout: p.Readout}
			o.given++
		}
		o.runs = append(o.runs, run)
		if r.End {
			o.closed = append(o.closed, st)
		}
	}
	return nil
}

// endBatch ends a batch.
func (o *owner) endBatch() {
	o.t.Helper()
	flushAll([]*owner{o})
}

// flushAll ends a batch of partitions that share slots.
func flushAll(all []*owner) {
	one := all[0]
	one.t.Helper()
	one.computeRuns()
	one.freeEnded()
	for _, o := range all {
		o.finishBatch()
	}
	*one.fx = Effects{}
}

// finishBatch ends the batch for the partition.
func (o *owner) finishBatch() {
	o.t.Helper()
	if o.failed {
		return
	}
	if o.given != len(o.out.Preds) {
		o.t.Fatalf("%d predictions, of which runs make %d", len(o.out.Preds), o.given)
	}
	o.out, o.given = Predictions{}, 0
	if o.spread != nil {
		o.storeAllRows()
	}
	if err := o.m.UpdateDigest(o.p, o); err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.p.CompareDigest(); err != nil {
		o.t.Fatal(err)
	}
}

// storeAllRows stores some rows apart.
func (o *owner) storeAllRows() {
	for st := range o.p.Oldest() {
		for i, slot := range st.Slots {
			if slot >= 0 && o.spread.IntN(3) == 0 {
				o.putApart(st, i)
			}
		}
		if !slices.ContainsFunc(st.Slots, func(slot int32) bool { return slot >= 0 }) {
			o.removeHolder(st)
		}
	}
}

// encodeState encodes the partition.
func (o *owner) encodeState() []byte {
	o.t.Helper()
	b, err := o.p.Encode(o.m.Shape, RowsIn{o})
	if err != nil {
		o.t.Fatal(err)
	}
	return b
}

// restoreOwner returns another owner that continues from a snapshot. Answers up to
// message to, after which the state has the given digest, and `ahead` predictions after
// that message are repeated without output.
func (o *owner) restoreOwner(b []byte, to uint64, ahead int, sum wire.Digest) *owner {
	o.t.Helper()
	n := newOwner(o.t, o.m.Rules).limitSlots(o.most, o.chance)
	n.apart = o.apart
	p, err := Decode(b, o.m.Shape, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	n.p.Answered = Answered{ReplayTo: to, Skip: uint64(ahead)}
	n.p.Want = Expected{At: to, Digest: sum}
	n.p.TakeOver(p)
	for _, src := range n.p.Sources {
		src.Part = n.p
	}
	for st := range n.p.Oldest() {
		for i, row := range st.Rows {
			if row == nil {
				continue
			}
			slot, err := n.takeSlot()
			if err != nil {
				o.t.Fatal(err)
			}
			st.Slots[i], st.Rows[i] = slot, nil
			n.markUsed(st)
			copy(n.rows[slot][:], row)
		}
		st.Rows = nil
	}
	n.endBatch()
	return n
}

// rulesOf are small enough that a random log reaches every limit.
func rulesOf(policy reservoir.Policy) Rules {
	return Rules{Rules: track.Rules{Policy: policy}, MaxStreams: 64, Reorder: 2, ReorderBytes: 1 << 20}
}
