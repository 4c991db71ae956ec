package shard

import (
	"log/slog"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// takeJob adds one message to the batch: samples become rows and runs, predictions
// become entries of the answer. An unusable message becomes a dead letter; an error
// stops the stage.
func (s *Shard) takeJob(b *Batch, j Job) error {
	b.messages++
	return s.failPartition(j.Part, s.takeInput(b, j))
}

func (s *Shard) takeInput(b *Batch, j Job) error {
	p := j.Part
	if j.Msg.Seq <= p.State.Done || p.Failed() {
		p.Waiting.Add(-1)
		return nil
	}
	a := b.answerOf(p)
	a.InSeq, a.InTime = j.Msg.Seq, j.Msg.Stored
	a.Messages++
	// A digest describes the state after one message: the batch must end with that
	// message.
	b.full = b.full || j.Msg.Seq == p.State.Want.At
	if j.Msg.Seq <= p.State.ReplayTo {
		s.counters.Replayed.Add(1)
		s.noteReplayed(p, j.Msg.Seq)
	} else {
		p.sinceSnapshot++
	}
	j.Msg.Heard = p.watch.now
	answered := len(a.Preds)
	traced := s.tracer != nil && s.traceMessage(b, a, &j.Msg)
	err := s.Machine.Apply(p.State, &j.Msg, &b.Fx, &a.Predictions)
	if traced {
		a.addEffects(&b.Fx)
	}
	s.reportBatch(b, a)
	if placed := s.assignSlots(b, a, answered); err == nil {
		err = placed
	}
	return err
}

// noteReplayed counts the partitions that rebuild their states.
func (s *Shard) noteReplayed(p *Partition, seq uint64) {
	if seq == p.State.ReplayTo {
		s.counters.Replaying.Add(-1)
		s.log.Info("replay is complete, the states are rebuilt", "partition", p.State.ID, "input", seq)
	}
}

// timed is a decoder that measures the decoding time and reports the recognized format.
type timed struct {
	decoder  formats.Decoder
	chooses  interface{ Last() formats.Format } // nil: a decoder of one format
	seen     []formats.Format
	counters *stats.Counters
	log      *slog.Logger
}

func newTimed(d formats.Decoder, counters *stats.Counters, log *slog.Logger) *timed {
	t := &timed{decoder: d, counters: counters, log: log}
	t.chooses, _ = d.(interface{ Last() formats.Format })
	return t
}

func (t *timed) Decode(data []byte, to *codec.Batch) error {
	start := time.Now()
	err := t.decoder.Decode(data, to)
	t.counters.Spent.Decode.Add(int64(time.Since(start)))
	if t.chooses != nil && err == nil {
		t.setFormat(t.chooses.Last())
	}
	return err
}

// setFormat logs each format once.
func (t *timed) setFormat(f formats.Format) {
	if !slices.Contains(t.seen, f) {
		t.seen = append(t.seen, f)
		t.log.Info("input.format is auto, and messages of this format come in", "format", string(f))
	}
}

// traceMessage records a traced message, before its predictions. A replayed message was
// traced by the worker that answered the message.
func (s *Shard) traceMessage(b *Batch, a *Answer, m *state.Message) bool {
	if m.Seq <= a.Part.State.ReplayTo {
		return false
	}
	parent := trace.Of(m.Header)
	if !s.tracer.Takes(parent) {
		return false
	}
	a.Traced = append(a.Traced, Traced{
		Parent: parent, Self: parent.Child(), Seq: m.Seq, Key: m.Key, Bytes: len(m.Data),
		Stored: time.Unix(0, m.Stored), Taken: time.Now(), From: len(a.Preds),
	})
	b.traced = true
	return true
}

// addEffects records the effects of the message traced last.
func (a *Answer) addEffects(fx *state.Effects) {
	t := &a.Traced[len(a.Traced)-1]
	t.To, t.Repeats = len(a.Preds), fx.Duplicates > 0
	if len(fx.Dead) > 0 {
		t.Dead = fx.Dead[0].Reason
	}
}
