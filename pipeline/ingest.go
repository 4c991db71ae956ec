package pipeline

import (
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
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
		s.counters.Replayed.Add(1)
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

// replayed keeps count of partitions that rebuild their states.
func (s *shard) replayed(p *partition, seq uint64) {
	if seq == p.state.ReplayTo {
		s.counters.Replaying.Add(-1)
		s.log.Info("states rebuilt", "partition", p.state.ID, "input", seq)
	}
}

// timed is a decoder that counts the time it takes.
type timed struct {
	decoder  *codec.Decoder
	counters *stats.Counters
}

func (t timed) Decode(data []byte, to *codec.Batch) error {
	start := time.Now()
	defer func() { t.counters.DecodeNS.Add(int64(time.Since(start))) }()
	return t.decoder.Decode(data, to)
}
