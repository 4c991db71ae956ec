package shard

import (
	"cmp"
	"errors"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// reportBatch counts and logs the effects of a message, and takes its dead letters.
func (s *Shard) reportBatch(b *Batch, a *Answer) {
	p := a.Part
	if b.Fx.EndEvents > 0 {
		p.asked, p.looked = 0, 0 // the next may follow
	}
	a.Commit = a.Commit || b.Fx.Promotions > 0 // the sender of a promotion waits for the record
	s.countTally(&b.Fx.Tally)
	for i := range b.Fx.Notes {
		s.logNote(p, &b.Fx.Notes[i])
	}
	b.Fx.Notes = b.Fx.Notes[:0]
	for _, d := range b.Fx.Dead {
		s.warnRarely("message cannot be used: sent to dead letters", "key", d.Msg.Key, "input", d.Msg.Seq, "err", errors.New(d.Reason))
		b.Dead = append(b.Dead, rejected{d, p})
		a.Dead = true
	}
	b.Fx.Dead = b.Fx.Dead[:0]
}

// countTally adds a tally to the counters, and clears the tally.
func (s *Shard) countTally(t *state.Tally) {
	if *t == (state.Tally{}) {
		return
	}
	c := s.counters
	c.Duplicates.Add(t.Duplicates)
	c.Contradictions.Add(t.Contradictions)
	c.Gaps.Add(t.Gaps)
	c.Reordered.Add(t.Reordered)
	c.Incarnations.Add(t.Incarnations)
	c.Held.Add(t.Missing)
	c.Losses.Add(t.Losses)
	c.FarTimes.Add(t.FarTimes)
	c.Forgotten.Add(t.Forgotten)
	c.New.Add(t.New)
	c.Abandoned.Add(t.Abandoned)
	c.Idle.Add(t.Idle)
	c.Streams.Add(t.Streams)
	c.Parked.Add(t.Parked)
	*t = state.Tally{}
}

// logNote logs a note in words.
func (s *Shard) logNote(p *Partition, n *state.Note) {
	switch n.Kind {
	case state.NoteKeyForgotten:
		s.warnRarely("too many streams: a key without open sequences and the number of its last message are forgotten; raise stage.max_streams", "partition", p.State.ID, "key", n.Key)
	case state.NoteStreamForgotten:
		s.warnRarely("more streams than max_streams: the stream that was silent for the longest time is forgotten", "partition", p.State.ID)
	case state.NoteSequenceForgotten:
		s.warnRarely("more streams than max_streams: the stream that was silent for the longest time is forgotten in the middle of a sequence, and streams that come back are flagged gap. If the new names are not yours, set input.keys; otherwise raise max_streams", "partition", p.State.ID, "stream", n.Stream, "new_key", n.Key)
	case state.NoteContradiction:
		s.warnRarely("a message number of this key was used again with other content: the message is dropped as a repeat. A producer that restarts its numbers must send a new incarnation ("+wire.HeaderIncarnation+"), and each key must have only one producer; logged once for each key", "partition", p.State.ID, "key", n.Key, "number", n.Number, "input", n.Input)
	case state.NoteGap:
		s.warnRarely("messages missing: predictions are flagged", "key", n.Key, "after", n.After, "got", n.Number)
	case state.NoteLoss:
		s.warnRarely("input was removed before this partition read it (by max_age, or by hand): messages may be lost; the sequences that they may belong to are flagged as gaps", "partition", p.State.ID, "before", n.Input)
	case state.NoteFarTimes:
		s.oddities.warnRarely(s.log, "times of samples are before 2000, or more than a day from when their message was stored: compare input.time_unit and the clock of the device; samples that a device has kept may be right; logged once for each key",
			"key", n.Key, "time", wire.DescribeFarTime(n.Time, n.Stored), "input", n.Input)
	case state.NotePromotion:
		s.log.Info("another readout predicts for sequences that begin from this message on", "partition", p.State.ID, "promotion", n.Number, "readout", cmp.Or(n.Readout, "the readout of the job's start"), "input", n.Input)
	case state.NoteUnlike:
		s.oddities.warnRarely(s.log, "samples unlike the training data: predictions from them are flagged; check that the sensor is connected, and that its unit is the one of the training data",
			"key", n.Key, "stream", n.Stream, "flags", n.Flags.String(), "channel", s.names[n.Channel], "input", n.Input)
	}
}
