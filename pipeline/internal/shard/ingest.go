package shard

import (
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
)

// ingest takes one message into the batch: its samples become rows and runs,
// its predictions places in the answer. A message that cannot be used becomes
// a dead letter; the error is only for what must stop the stage.
func (s *Shard) ingest(b *Batch, j Job) error {
	b.messages++
	return s.failPartition(j.Part, s.input(b, j))
}

func (s *Shard) input(b *Batch, j Job) error {
	p := j.Part
	if j.Msg.Seq <= p.State.Done || p.Failed() {
		p.Waiting.Add(-1)
		return nil
	}
	a := b.answer(p)
	a.InSeq, a.InTime = j.Msg.Seq, j.Msg.Stored
	a.Messages++
	// A digest is of the state after one message: the batch must end with it.
	b.full = b.full || j.Msg.Seq == p.State.Want.At
	if j.Msg.Seq <= p.State.ReplayTo {
		s.counters.Replayed.Add(1)
		s.replayed(p, j.Msg.Seq)
	} else {
		p.sinceSnapshot++
	}
	j.Msg.Heard = p.watch.now
	answered := len(a.Preds)
	err := s.Machine.Apply(p.State, &j.Msg, &b.Fx, &a.Predictions)
	s.tell(b, a)
	if placed := s.assign(b, a, answered); err == nil {
		err = placed
	}
	return err
}

// replayed keeps count of partitions that rebuild their states.
func (s *Shard) replayed(p *Partition, seq uint64) {
	if seq == p.State.ReplayTo {
		s.counters.Replaying.Add(-1)
		s.log.Info("replay is complete, the states are rebuilt", "partition", p.State.ID, "input", seq)
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
