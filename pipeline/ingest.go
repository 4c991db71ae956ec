package pipeline

import (
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ingest takes one message into the batch: its samples become rows and runs,
// its predictions places in the answer. A message that cannot be used becomes
// a dead letter; the error is only for what must stop the stage.
func (s *shard) ingest(b *batch, j job) error {
	b.messages++
	return s.failPartition(j.part, s.input(b, j))
}

func (s *shard) input(b *batch, j job) error {
	p := j.part
	if j.msg.Seq <= p.state.Done || p.failed() {
		p.waiting.Add(-1)
		return nil
	}
	a := b.answer(p)
	a.inSeq, a.inTime = j.msg.Seq, j.msg.Stored
	a.messages++
	// A digest is of the state after one message: the batch must end with it.
	b.full = b.full || j.msg.Seq == p.state.Want.At
	if j.msg.Seq <= p.state.ReplayTo {
		s.counters.replayed.Add(1)
		s.replayed(p, j.msg.Seq)
	} else {
		p.sinceSnapshot++
	}
	j.msg.Heard = p.watch.now
	answered := len(a.Preds)
	err := s.machine.Apply(p.state, &j.msg, &b.fx, &a.Predictions)
	s.tell(b, a)
	if placed := s.assign(b, a, answered); err == nil {
		err = placed
	}
	return err
}

// assign gives the runs of a message their slots, and says where the scores of
// its predictions belong, of which the first is the answer's next.
func (s *shard) assign(b *batch, a *answer, next int) error {
	for i := range b.fx.Runs {
		r := &b.fx.Runs[i]
		if r.Drop {
			s.vacate(r.Stream)
			continue
		}
		slot := &r.Stream.Slots[r.Phase]
		if *slot < 0 {
			if err := s.place(b, r.Stream, int(r.Phase), r.Reset); err != nil {
				return err
			}
		}
		s.residents.use(r.Stream)
		r.Stream.InUse = r.Open
		b.runs = append(b.runs, reservoir.Run{Slot: *slot, Reset: r.Reset, Emit: r.Emit, From: r.From, To: r.To})
		if r.Emit {
			b.emits = append(b.emits, emit{a.part.index, next})
			next++
		}
		if r.End {
			s.closed = append(s.closed, r.Stream)
		}
	}
	b.fx.Runs = b.fx.Runs[:0]
	return nil
}

// vacate takes all rows from a stream, at once: a sample in the same batch
// needs only some of them again, and what the state is must not depend on the
// batch. The runs in hand still use the slots, which are free after them.
func (s *shard) vacate(st *state.Stream) {
	for i, slot := range st.Slots {
		if slot >= 0 {
			s.leaving, st.Slots[i] = append(s.leaving, slot), -1
		}
		if st.IsAway(i) {
			s.disown(st, i)
		}
	}
	s.residents.remove(st)
}

// replayed keeps count of partitions that rebuild their states.
func (s *shard) replayed(p *partition, seq uint64) {
	if seq == p.state.ReplayTo {
		s.counters.replaying.Add(-1)
		s.log.Info("states rebuilt", "partition", p.state.ID, "input", seq)
	}
}

// timed is a decoder that counts the time it takes.
type timed struct {
	decoder  *codec.Decoder
	counters *Counters
}

func (t timed) Decode(data []byte, to *codec.Batch) error {
	start := time.Now()
	defer func() { t.counters.decodeNS.Add(int64(time.Since(start))) }()
	return t.decoder.Decode(data, to)
}
