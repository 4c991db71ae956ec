package shard

import (
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// tell counts and logs what a message has led to, and takes its dead letters.
func (s *Shard) tell(b *Batch, a *Answer) {
	p := a.Part
	if b.Fx.EndEvents > 0 {
		p.Asked, p.looked = 0, 0 // the next may follow
	}
	s.count(&b.Fx.Tally)
	for i := range b.Fx.Notes {
		s.say(p, &b.Fx.Notes[i])
	}
	b.Fx.Notes = b.Fx.Notes[:0]
	for _, d := range b.Fx.Dead {
		s.warn("message cannot be used: sent to dead letters", "key", d.Msg.Key, "input", d.Msg.Seq, "err", d.Reason)
		b.Dead = append(b.Dead, rejected{d, p})
		a.Dead = true
	}
	b.Fx.Dead = b.Fx.Dead[:0]
}

// count adds a tally to the counters, and empties it.
func (s *Shard) count(t *state.Tally) {
	if *t == (state.Tally{}) {
		return
	}
	c := s.Counters
	c.Duplicates.Add(t.Duplicates)
	c.Contradictions.Add(t.Contradictions)
	c.Gaps.Add(t.Gaps)
	c.Reordered.Add(t.Reordered)
	c.Incarnations.Add(t.Incarnations)
	c.Held.Add(t.Missing)
	c.Losses.Add(t.Losses)
	c.Forgotten.Add(t.Forgotten)
	c.Idle.Add(t.Idle)
	c.Streams.Add(t.Streams)
	c.Parked.Add(t.Parked)
	*t = state.Tally{}
}

// say puts what happened into words.
func (s *Shard) say(p *Partition, n *state.Note) {
	switch n.Kind {
	case state.NoteKeyForgotten:
		s.warn("no room to remember a key without open sequences", "partition", p.State.ID, "key", n.Key)
	case state.NoteStreamForgotten:
		s.warn("more streams than max_streams: the one longest silent is forgotten", "partition", p.State.ID)
	case state.NoteContradiction:
		s.warn("a message of this key came again with other content, and is dropped as a repeat: a producer that starts counting again must say so ("+wire.HeaderIncarnation+"), and a key has one producer; told once for each key", "partition", p.State.ID, "key", n.Key, "number", n.Number, "input", n.Input)
	case state.NoteGap:
		s.warn("messages missing: predictions are flagged", "key", n.Key, "after", n.After, "got", n.Number)
	case state.NoteLoss:
		s.warn("input was removed before this partition had read as far (max_age, or by hand): what it may have had there is lost; the sequences it may belong to are flagged as gaps", "partition", p.State.ID, "before", n.Input)
	case state.NoteUnlike:
		s.oddities.warn(s.Log, "samples unlike the training's: predictions that rest on them are flagged; is the sensor connected, and its unit the one trained on?",
			"key", n.Key, "stream", n.Stream, "flags", n.Flags.String(), "channel", s.names[n.Channel], "input", n.Input)
	}
}
