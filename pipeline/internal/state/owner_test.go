package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// owner applies what a machine says to rows in memory, as a shard does to an
// engine: at the end of each batch. A row is a hash of the samples that its state
// was fed since its reset.
type owner struct {
	t      testing.TB
	m      *Machine
	p      *Partition
	fx     Effects
	out    Predictions
	rows   [][2]uint32 // by slot
	free   []int32
	apart  map[uint64][2]uint32 // rows stored apart, by wire.RowRef.Seq
	spread *rand.Rand           // moves rows apart now and then; nil = never

	made []made
	dead []uint64
	full uint64 // the message that found no room; 0 = none
}

func newOwner(t testing.TB, r Rules) *owner {
	t.Helper()
	r.Channels, r.Mean = 1, []float32{0}
	r.Shape = Shape{Words: 2, states: r.Policy.States(), Width: 1, inputs: 1}
	dec, err := codec.NewDecoder(codec.Schema{Channels: []string{"v"}})
	if err != nil {
		t.Fatal(err)
	}
	return &owner{t: t, m: NewMachine(r, dec), p: NewPartition(0), apart: map[uint64][2]uint32{}}
}

// ReadRow is RowReader's.
func (o *owner) ReadRow(slot int32) ([]uint32, error) {
	if slices.Contains(o.free, slot) {
		return nil, fmt.Errorf("slot %d is free", slot)
	}
	return o.rows[slot][:], nil
}

func (o *owner) slot() int32 {
	if n := len(o.free); n > 0 {
		s := o.free[n-1]
		o.free = o.free[:n-1]
		return s
	}
	o.rows = append(o.rows, [2]uint32{})
	return int32(len(o.rows) - 1)
}

// feed applies messages in batches whose ends cut names, by the number of the
// last message in each. It ends where the partition is full.
func (o *owner) feed(messages []Message, cut func(seq uint64) bool) {
	o.t.Helper()
	for i := range messages {
		err := o.m.Apply(o.p, &messages[i], &o.fx, &o.out)
		if errors.Is(err, ErrStreams) {
			o.full = messages[i].Seq
			return
		}
		if err != nil {
			o.t.Fatal(err)
		}
		if cut(messages[i].Seq) {
			o.flush()
		}
	}
	o.flush()
}

// flush ends a batch.
func (o *owner) flush() {
	o.t.Helper()
	var closed []*Stream
	next := 0
	for _, r := range o.fx.Runs {
		st := r.Stream
		if r.Drop {
			for i, slot := range st.Slots {
				if slot >= 0 {
					o.free, st.Slots[i] = append(o.free, slot), -1
				}
				if st.IsAway(i) {
					st.Disown(i)
				}
			}
			continue
		}
		if st.Slots[r.Phase] < 0 {
			st.Slots[r.Phase] = o.slot()
			if st.IsAway(int(r.Phase)) {
				o.rows[st.Slots[r.Phase]] = o.apart[st.Away[r.Phase].Seq]
				st.Disown(int(r.Phase))
			}
		}
		row := &o.rows[st.Slots[r.Phase]]
		if r.Reset {
			*row = [2]uint32{}
		}
		h := hashSamples(uint64(row[0])|uint64(row[1])<<32, o.fx.X[r.From:r.To]...)
		row[0], row[1] = uint32(h), uint32(h>>32)
		if r.Emit {
			p := o.out.Preds[next]
			o.made = append(o.made, made{p.Stream, p.Seq, p.Row, p.Flags, o.out.At[next], h})
			next++
		}
		if r.End {
			closed = append(closed, st)
		}
	}
	if next != len(o.out.Preds) {
		o.t.Fatalf("%d predictions, of which runs make %d", len(o.out.Preds), next)
	}
	for _, st := range closed {
		for i, slot := range st.Slots {
			if slot >= 0 && !st.Seq.Open() {
				o.free, st.Slots[i] = append(o.free, slot), -1
			}
		}
	}
	for _, d := range o.fx.Dead {
		o.dead = append(o.dead, d.Msg.Seq)
	}
	o.fx, o.out = Effects{}, Predictions{}
	if o.spread != nil {
		o.putApart()
	}
	if err := o.m.Rehash(o.p, o); err != nil {
		o.t.Fatal(err)
	}
	if _, err := o.m.Check(o.p, o); err != nil {
		o.t.Fatal(err)
	}
}

// putApart stores some rows apart. Nothing that is state changes.
func (o *owner) putApart() {
	for st := range o.p.Oldest() {
		for i, slot := range st.Slots {
			if slot < 0 || o.spread.IntN(3) > 0 {
				continue
			}
			seq := uint64(len(o.apart) + 1)
			o.apart[seq] = o.rows[slot]
			o.free = append(o.free, slot)
			st.PutAway(i, wire.RowRef{Seq: seq, Hash: wire.HashOf(appendRow(o.rows[slot]))})
		}
	}
}

func appendRow(row [2]uint32) []byte { return AppendRowWords(nil, row[:]) }

// snapshot encodes the partition.
func (o *owner) snapshot() []byte {
	o.t.Helper()
	b, err := o.p.Encode(o.m.Shape, RowsIn{o})
	if err != nil {
		o.t.Fatal(err)
	}
	return b
}

// restored is another owner that goes on from a snapshot. What was answered up to
// message to, after which the state has this digest, and so many predictions
// beyond it, are repeated in silence.
func (o *owner) restored(b []byte, to uint64, ahead int, sum wire.Digest) *owner {
	o.t.Helper()
	n := newOwner(o.t, o.m.Rules)
	n.apart = o.apart
	p, err := Decode(b, o.m.Shape, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	n.p.Answered = Answered{ReplayTo: to, Skip: uint64(ahead)}
	n.p.Want = Expected{At: to, Digest: sum, Version: wire.StateVersion}
	n.p.TakeOver(p)
	for _, src := range n.p.Sources {
		src.Part = n.p
	}
	for st := range n.p.Oldest() {
		for i, row := range st.Rows {
			if row != nil {
				st.Slots[i] = n.slot()
				copy(n.rows[st.Slots[i]][:], row)
			}
		}
		st.Rows = nil
	}
	n.flush()
	return n
}

// rulesOf are small enough that a random log meets every bound.
func rulesOf(policy reservoir.Policy) Rules {
	return Rules{Policy: policy, MaxStreams: 64, Reorder: 2, ReorderBytes: 1 << 20}
}
