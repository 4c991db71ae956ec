package record

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// settleEvery is how many messages may pass before the partition drops its list of
// changes for a digest.
const settleEvery = 1024

// taker passes messages through the stage's state machine, and collects the resulting
// samples.
type taker struct {
	machine *state.Machine
	part    *state.Partition
	takes   func(stream string) bool
	first   uint64 // earlier messages only advance states
	fx      state.Effects
	out     state.Predictions

	rows         Rows            // samples not written yet
	next         int64           // number of the next sample
	open         map[place]int64 // last samples of streams, while a later message may end the sequence there
	ends, silent []int64         // of written samples, and of sequences that silence ended
	done         Done            // since the last file
	dead         []Dead
	sum, total   wire.Digest // of done, and of all earlier files
	buf          []byte
	err          error // of the message in hand
}

// newTaker begins with the state at a position, which may be nil, after a number of samples.
func newTaker(m *state.Machine, part *state.Partition, open map[place]int64, takes func(string) bool, first, samples uint64) *taker {
	t := &taker{machine: m, part: state.NewPartition(0), takes: takes, first: first, next: int64(samples) + 1, open: map[place]int64{}}
	if part != nil {
		t.part.TakeOver(part)
		t.open = open
	}
	t.part.ReplayTo = max(first, 1) - 1
	m.Taken = t.addTaken
	return t
}

// takeMessage takes a message of the log.
func (t *taker) takeMessage(m inlog.Message) error {
	t.part.ID = m.Stored
	if err := t.applyMessage(&m.Message); err != nil {
		return err
	}
	if m.Seq >= t.first {
		t.done.Messages++
	}
	if m.Seq%settleEvery == 0 {
		t.part.ForgetChanges()
	}
	return nil
}

func (t *taker) applyMessage(m *state.Message) error {
	fx := &t.fx
	*fx = state.Effects{X: fx.X[:0], Runs: fx.Runs[:0], Dead: fx.Dead[:0], Notes: fx.Notes[:0]}
	t.out = state.Predictions{Preds: t.out.Preds[:0], At: t.out.At[:0], Stored: t.out.Stored[:0], Began: t.out.Began[:0]}
	t.err = nil
	if err := t.machine.Apply(t.part, m, fx, &t.out); err != nil {
		return err
	}
	if t.err != nil {
		return t.err
	}
	d := &t.done
	d.Repeats, d.Gaps, d.Incarnations = d.Repeats+fx.Duplicates, d.Gaps+fx.Gaps, d.Incarnations+fx.Incarnations
	d.Unusable += uint64(len(fx.Dead))
	for _, l := range fx.Dead {
		if len(t.dead) < namedDead {
			t.dead = append(t.dead, Dead{l.Msg.Seq, names.Cut(fmt.Sprintf("%q", l.Msg.Key), longestReason), names.Cut(l.Reason, longestReason)})
		}
	}
	return nil
}

// longestReason limits the stored reason of a dead letter: it contains foreign text.
const longestReason = 500

// addTaken collects the samples of a stream.
func (t *taker) addTaken(s *state.Taken) {
	if t.part.Done < t.first || !t.takes(s.Stream.ID) {
		return
	}
	at := place{s.Stream.Source.Key, s.Stream.ID}
	if names.Check("stream", at.stream) != nil || names.Check("key", at.key) != nil || at.stream == "" {
		t.done.Unnamed += uint64(s.Samples.Count)
		return
	}
	channels := t.machine.Channels
	for i := range s.Samples.Count {
		last := i == s.Samples.Count-1
		end := last && s.Samples.EndAfter || len(s.Samples.Ends) > 0 && s.Samples.Ends[i]
		t.addRow(at, s, i, s.X[i*channels:(i+1)*channels])
		if end || last {
			t.open[at] = t.next - 1
		}
		if end {
			t.endSequence(at, false)
		}
	}
	if s.Samples.Count == 0 && s.Samples.EndAfter {
		t.endSequence(at, s.Silent)
	}
}

func (t *taker) addRow(at place, s *state.Taken, i int, values []float32) {
	r, time, flags := &t.rows, int64(codec.NoTime), outcome.Flag(0)
	if len(s.Samples.Times) > 0 {
		time = s.Samples.Times[i]
	}
	if i == 0 {
		flags = s.Flags
	}
	r.Stream, r.Key = append(r.Stream, at.stream), append(r.Key, at.key)
	r.Number, r.Time = append(r.Number, t.next), append(r.Time, time)
	r.Values, r.End = append(r.Values, values...), append(r.End, false)
	r.Input, r.Message = append(r.Input, s.Input), append(r.Message, s.Seq)
	r.Row, r.Flags = append(r.Row, s.Row(i)), append(r.Flags, uint32(flags))
	var h wire.Digest
	h, t.buf = r.hashRow(t.buf, r.Len()-1, t.machine.Channels)
	t.sum.Add(h)
	t.next++
	t.done.Samples++
}

// endSequence records the end of a stream's sequence with the last sample.
func (t *taker) endSequence(at place, silent bool) {
	number, ok := t.open[at]
	if !ok {
		return // already recorded, or there was no sample
	}
	delete(t.open, at)
	t.sum.Add(hashOfEnd(number, silent))
	t.done.Ends++
	here := t.rows.Len() > 0 && number >= t.rows.Number[0]
	if here {
		t.rows.End[number-t.rows.Number[0]] = true
	}
	switch {
	case silent:
		t.silent = append(t.silent, number)
	case !here:
		t.ends = append(t.ends, number)
	}
}

// releaseWaiting uses, at the end of the log, the messages of keys held for numbers
// before the beginning of the log: these numbers are unknown.
func (t *taker) releaseWaiting() error {
	p := t.part
	done, stored := p.Done, p.DoneTime
	return t.machine.ReleaseWaiting(p, func(m state.Message) error {
		p.ID = 0
		err := t.applyMessage(&m)
		p.Done, p.DoneTime = done, stored // the event is in no log
		return err
	})
}

// countWaiting returns the number of held messages.
func (t *taker) countWaiting() (n int) {
	for _, src := range t.part.Sources {
		n += len(src.Held)
	}
	return n
}

// pruneEnded drops the last samples of streams that the state machine has forgotten: no
// later message can end such a sequence.
func (t *taker) pruneEnded() {
	for at := range t.open {
		src := t.part.Sources[at.key]
		if src == nil || src.Streams[at.stream] == nil {
			delete(t.open, at)
		}
	}
}

// addCounts adds the counts of another part.
func (d *Done) addCounts(o *Done) {
	for _, n := range []struct{ to, more *uint64 }{
		{&d.Messages, &o.Messages}, {&d.Samples, &o.Samples}, {&d.Ends, &o.Ends}, {&d.Repeats, &o.Repeats}, {&d.Gaps, &o.Gaps},
		{&d.Removed, &o.Removed}, {&d.Incarnations, &o.Incarnations}, {&d.Unusable, &o.Unusable}, {&d.Unnamed, &o.Unnamed},
	} {
		*n.to += *n.more
	}
}
