//go:build linux

package main

import (
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// truth is the uninterrupted run: it reads the stored input message by message and
// computes every prediction that the stage must have made.
//
// It keeps the samples of open sequences, and computes each prediction from the first
// sample on, in one call of the generic engine. This is slow, but independent of states
// that a fault could have changed.
type truth struct {
	plan    *plan
	model   *reservoir.Model
	engine  reservoir.Engine
	reorder int // messages per key held back while a previous message is missing; 0 = none

	keys        map[string]*producer
	readouts    readouts                      // readouts of the predictions
	predictions map[string][]codec.Prediction // by stream, in order
	owner       map[string]string             // the key of a stream
	heard       map[string][]heard            // by stream, in runs with a recorder
	damaged     map[uint64]bool               // dead letters by input sequence number: required or only allowed
	total       int
	idle        int    // sequences ended by an end event
	resized     bool   // a resize has begun: an end event may name a previous partition
	position    uint64 // the current input message
	late        int    // messages that waited for a previous message
	dropped     int    // repeats, and late messages after they were abandoned
}

// readouts selects the readout of a prediction by the promotions in the input. Readouts
// have their number in the model: 0 is the job's initial readout.
type readouts struct {
	names     []string                      // names in predictions; none in runs without promotions
	partition func(key string) int          // of a run with promotions
	newest    map[int]promoted              // by partition
	first     map[string][]codec.Prediction // predictions of the first readout: of a job without promotions
	used      map[int]int                   // predictions of each readout
}

// promoted is the newest promotion of a partition.
type promoted struct {
	number  uint64
	readout int
}

// beganUnder assigns a readout to sequences that begin with sample at, or later.
type beganUnder struct{ sample, readout int }

// current returns the readout of sequences of a key that begin now.
func (r *readouts) current(key string) int {
	if len(r.newest) == 0 {
		return 0
	}
	return r.newest[r.partition(key)].readout
}

// nameOf returns a readout's name in predictions; empty for the first readout.
func (r *readouts) nameOf(which int) string {
	if which == 0 {
		return ""
	}
	return r.names[which]
}

// setReadout records the readout of the sequences that begin with the next sample.
func (s *track) setReadout(which int) {
	if n := len(s.began); n == 0 && which > 0 || n > 0 && s.began[n-1].readout != which {
		s.began = append(s.began, beganUnder{s.n, which})
	}
}

// readoutOf returns the readout of the sequence that begins with a sample.
func (s *track) readoutOf(begin int) (which int) {
	for _, b := range s.began {
		if b.sample <= begin {
			which = b.readout
		}
	}
	return which
}

// producer is the state of one key.
type producer struct {
	last    uint64             // last Eusn-Seq used
	numbers string             // incarnation of the numbers
	waiting map[uint64]waiting // by Eusn-Seq, while a previous message is missing
	streams map[string]*track
	lost    outcome.Flag // of missing and unreadable messages: any new stream of the key may lack samples
	heard   uint64       // last input message of the key
}

// waiting is a message that arrived too early.
type waiting struct {
	m     *input
	inSeq uint64
}

// track is a stream: the samples needed by open sequences.
type track struct {
	x     []float32
	from  int // number of the first sample in x
	n     int // samples so far
	start int // marked, count: first sample of the open sequence
	mark  outcome.Flag
	marks []flagged
	began []beganUnder

	heard uint64 // input message of the last sample
	seq   uint64 // of the last sample
	row   uint32
	time  int64
}

// flagged is an event just before a sample.
type flagged struct {
	sample int
	flag   outcome.Flag
}

func newTruth(p *plan, m *reservoir.Model, reorder int) (*truth, error) {
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		return nil, err
	}
	return &truth{
		plan: p, model: m, engine: e, reorder: reorder, keys: map[string]*producer{},
		readouts:    readouts{newest: map[int]promoted{}, first: map[string][]codec.Prediction{}, used: map[int]int{}},
		predictions: map[string][]codec.Prediction{}, owner: map[string]string{}, damaged: map[uint64]bool{},
	}, e.SetReadouts(m.Readouts)
}

// readInput is called with each stored message in order. inSeq is its number in the input NATS
// stream.
func (t *truth) readInput(m *input, inSeq uint64) error {
	p, seq := t.keys[m.key], m.seq
	if p == nil {
		p = &producer{streams: map[string]*track{}, waiting: map[uint64]waiting{}}
		t.keys[m.key] = p
	}
	t.position, p.heard = inSeq, inSeq
	if t.plan.traffic.Unnumbered {
		return t.useMessage(p, m, inSeq, 0)
	}
	if err := t.followNumbers(p, m.incarnation); err != nil {
		return err
	}
	_, again := p.waiting[seq]
	switch {
	case seq <= p.last || again:
		t.dropped++
		if m.damaged { // a previous owner whose input was removed may not know the first copy
			t.damaged[inSeq] = false
		}
		return nil
	case seq > p.last+1:
		p.waiting[seq] = waiting{m, inSeq}
		return t.giveUp(p, t.reorder)
	}
	p.last = seq
	if err := t.useMessage(p, m, inSeq, 0); err != nil {
		return err
	}
	return t.flushWaiting(p, outcome.FlagReordered)
}

// followNumbers resets the expected number of a key after the start of another incarnation
// of its gateway, whose numbers begin at 1.
func (t *truth) followNumbers(p *producer, incarnation string) error {
	if incarnation == p.numbers {
		return nil
	}
	if err := t.giveUp(p, 0); err != nil {
		return err
	}
	if p.last > 0 {
		p.markAll(outcome.FlagGap)
	}
	p.numbers, p.last = incarnation, 0
	return nil
}

// readMeant reads the messages of the producers' plan, each key's in order, from number
// from on: the correct predictions if nothing is lost.
func (t *truth) readMeant(from map[string]int) error {
	for _, key := range t.plan.keys {
		all := t.plan.messages[key]
		for _, m := range all[from[key]:] {
			if err := t.readInput(m, 0); err != nil {
				return err
			}
		}
		from[key] = len(all)
	}
	return nil
}

// giveUp declares messages missing while more than most messages wait for them.
func (t *truth) giveUp(p *producer, most int) error {
	for len(p.waiting) > most {
		p.markAll(outcome.FlagGap)
		p.last = slices.Min(slices.Collect(maps.Keys(p.waiting))) - 1
		if err := t.flushWaiting(p, 0); err != nil {
			return err
		}
	}
	return nil
}

// flushWaiting uses waiting messages that are next in order.
func (t *truth) flushWaiting(p *producer, f outcome.Flag) error {
	for {
		w, ok := p.waiting[p.last+1]
		if !ok {
			return nil
		}
		p.last++
		delete(p.waiting, p.last)
		if err := t.useMessage(p, w.m, w.inSeq, f); err != nil {
			return err
		}
		if f != 0 {
			t.late++
		}
	}
}

// useMessage passes a message to its streams. f is a flag of its samples.
func (t *truth) useMessage(p *producer, m *input, inSeq uint64, f outcome.Flag) error {
	if m.damaged {
		t.damaged[inSeq] = true
		if len(p.streams) == 0 { // a new stream, under the key's own name
			p.streamOf(m.key)
		}
		p.markAll(outcome.FlagPoisonSkipped)
		return nil
	}
	for i := range m.rows() {
		id := m.streamOf(i)
		t.owner[id] = m.key
		s := p.streamOf(id)
		if slices.Index(m.ids, id) == i || m.ids == nil && i == 0 { // the stream's first row in this message
			s.mark |= f
		}
		if err := t.addSample(s, id, m, i); err != nil {
			return err
		}
	}
	return nil
}

// markAll records a flag for all streams of the key.
func (p *producer) markAll(f outcome.Flag) {
	p.lost |= f
	for _, s := range p.streams {
		s.mark |= f
	}
}

func (p *producer) streamOf(id string) *track {
	s := p.streams[id]
	if s == nil {
		s = &track{mark: p.lost}
		p.streams[id] = s
	}
	return s
}

// addSample reads row i of m and makes the predictions that end with it.
func (t *truth) addSample(s *track, id string, m *input, i int) error {
	if t.heard != nil {
		t.heard[id] = append(t.heard[id], heard{m.seq, uint32(i), m.times[i], m.x[i*channels], m.x[i*channels+1], s.mark})
	}
	if s.mark != 0 {
		s.marks = append(s.marks, flagged{s.n, s.mark})
		s.mark = 0
	}
	s.x = append(s.x, m.x[i*channels:(i+1)*channels]...)
	s.setReadout(t.readouts.current(m.key))
	s.n++
	s.seq, s.row, s.time, s.heard = m.seq, uint32(i), m.times[i], t.position
	if t.plan.traffic.Unnumbered {
		s.seq = 0
	}

	pol := t.model.Policy
	begin, ends := s.start, false
	switch pol.Kind {
	case reservoir.Marked:
		ends = m.ends[i]
	case reservoir.Count:
		ends = s.n-s.start == pol.Length
	case reservoir.Window:
		begin = s.n - pol.Length
		ends = begin >= 0 && s.n%pol.Hop == 0
	}
	early := pol.Early > 0 && (s.n-s.start)%pol.Early == 0
	if ends || early {
		var f outcome.Flag
		if !ends {
			f = outcome.FlagEarly
		}
		if err := t.predict(s, id, begin, f); err != nil {
			return err
		}
	}
	switch {
	case pol.Kind == reservoir.Window:
		s.forgetBefore(max(s.from, s.n-pol.Length+1))
	case ends:
		s.start = s.n
		s.forgetBefore(s.n)
	}
	return nil
}

// predict computes the prediction of the samples from begin to now, with the additional
// flags f.
func (t *truth) predict(s *track, id string, begin int, f outcome.Flag) error {
	x := s.x[(begin-s.from)*channels:]
	columns := t.model.Readouts[0].Columns()
	scores := make([]float32, columns*len(t.model.Readouts))
	run := reservoir.Run{Reset: true, Emit: true, To: int32(len(x) / channels)}
	if err := t.engine.Advance(x, []reservoir.Run{run}, scores); err != nil {
		return err
	}
	for _, m := range s.marks {
		// A window that begins with the sample after the event is complete; other
		// sequences may lack samples.
		if m.sample > begin || m.sample == begin && t.model.Policy.Kind != reservoir.Window {
			f |= m.flag
		}
	}
	p := codec.Prediction{Stream: id, Seq: s.seq, Row: s.row, Time: s.time, Answer: outcome.Answer{Flags: f | flagsOf(x)}}
	by := func(which int) codec.Prediction {
		p.Readout, p.Scores = t.readouts.nameOf(which), scores[which*columns:(which+1)*columns]
		p.Class = 0
		for c, v := range p.Scores {
			if v > p.Scores[p.Class] {
				p.Class = int32(c)
			}
		}
		p.Score, p.Probability = p.Scores[p.Class], t.model.Readouts[which].Probability(p.Scores)
		return p
	}
	which := s.readoutOf(begin)
	t.predictions[id] = append(t.predictions[id], by(which))
	t.readouts.first[id] = append(t.readouts.first[id], by(0))
	t.readouts.used[which]++
	t.total++
	return nil
}

// flagsOf returns the flags of a sequence's samples: a value outside the range by more
// than half of the range, a channel with the same value nine times in a row.
func flagsOf(x []float32) (f outcome.Flag) {
	for c := range channels {
		run := 0
		for i := c; i < len(x); i += channels {
			if x[i] > 2*ranged || x[i] < -2*ranged {
				f |= outcome.FlagOutOfRange
			}
			if i > c && x[i] == x[i-channels] {
				run++
			} else {
				run = 1
			}
			if run > 8 {
				f |= outcome.FlagFlat
			}
		}
	}
	return f
}

// forgetBefore drops samples and events before number from.
func (s *track) forgetBefore(from int) {
	s.x = slices.Delete(s.x, 0, (from-s.from)*channels)
	s.from = from
	s.marks = slices.DeleteFunc(s.marks, func(m flagged) bool { return m.sample < from })
}
