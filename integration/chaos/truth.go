//go:build linux

package main

import (
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// truth is the uninterrupted run: it takes the stored input message by
// message and knows every prediction the stage must have made.
//
// It keeps the samples of open sequences, and computes each prediction from the
// first sample on, in one call of the generic engine. That is slow, but it uses
// no state that a fault could have changed.
type truth struct {
	plan    *plan
	model   *reservoir.Model
	engine  *reservoir.Generic
	reorder int // messages a key may hold back while one is missing; 0 = none

	keys        map[string]*producer
	readouts    readouts                      // which of the model's make the predictions
	predictions map[string][]codec.Prediction // by stream, in order
	owner       map[string]string             // the key of a stream
	heard       map[string][]heard            // by stream, in runs with a recorder
	damaged     map[uint64]bool               // input sequence numbers that must be dead letters
	total       int
	idle        int    // sequences that an end event has ended
	now         uint64 // the input message being taken
	late        int    // messages that waited for one before them
	dropped     int    // repeats, and messages that came after they were given up
}

// readouts is which readout makes a prediction, as promotions in the input say. By
// number, as in the model: 0 is the one that the job begins with.
type readouts struct {
	names     []string                      // in predictions; none in runs without promotions
	partition func(key string) int          // of a run with promotions
	now       map[int]promoted              // by partition
	first     map[string][]codec.Prediction // what the first one would have said: of a job without promotions
	used      map[int]int                   // predictions by each
}

// promoted is the newest promotion that a partition has taken.
type promoted struct {
	number  uint64
	readout int
}

// beganUnder says that sequences which begin with a sample, or later, have a readout.
type beganUnder struct{ at, readout int }

func newReadouts() readouts {
	return readouts{now: map[int]promoted{}, first: map[string][]codec.Prediction{}, used: map[int]int{}}
}

// of is the one for what begins now under a key.
func (r *readouts) of(key string) int {
	if len(r.now) == 0 {
		return 0
	}
	return r.now[r.partition(key)].readout
}

// name is a readout's in predictions; empty = the first one's.
func (r *readouts) name(which int) string {
	if which == 0 {
		return ""
	}
	return r.names[which]
}

func (r *readouts) count(which int) { r.used[which]++ }

// follow notes which readout the sequences have that begin with the next sample.
func (s *track) follow(which int) {
	if n := len(s.began); n == 0 && which > 0 || n > 0 && s.began[n-1].readout != which {
		s.began = append(s.began, beganUnder{s.n, which})
	}
}

// readoutOf is the readout of the sequence that begins with a sample.
func (s *track) readoutOf(begin int) (which int) {
	for _, b := range s.began {
		if b.at <= begin {
			which = b.readout
		}
	}
	return which
}

// producer is what is known about one key.
type producer struct {
	last    uint64             // Eusn-Seq taken last
	held    map[uint64]waiting // by Eusn-Seq, while one before is missing
	streams map[string]*track
	first   bool         // its first message was missing: any of its streams may lack samples
	heard   uint64       // last input message of the key
	mark    outcome.Flag // for streams without a message yet, until the next good message
}

// waiting is a message that came too early.
type waiting struct {
	m     *input
	inSeq uint64
}

// track is one stream: the samples that open sequences still need.
type track struct {
	x     []float32
	from  int // number of the sample that x begins with
	n     int // samples so far
	start int // marked, count: first sample of the open sequence
	mark  outcome.Flag
	marks []flagged
	began []beganUnder

	heard uint64 // input message that brought the last sample
	seq   uint64 // of the last sample
	row   uint32
	time  int64
}

// flagged says that something happened just before a sample.
type flagged struct {
	at   int
	flag outcome.Flag
}

func newTruth(p *plan, m *reservoir.Model, reorder int) (*truth, error) {
	e, err := reservoir.NewGeneric(m.Network, 1)
	if err != nil {
		return nil, err
	}
	return &truth{
		plan: p, model: m, engine: e, reorder: reorder, keys: map[string]*producer{}, readouts: newReadouts(),
		predictions: map[string][]codec.Prediction{}, owner: map[string]string{}, damaged: map[uint64]bool{},
	}, e.SetReadouts(m.Readouts)
}

// take is called with each stored message in order. inSeq is its number in the
// input NATS stream.
func (t *truth) take(m *input, inSeq uint64) error {
	p, seq := t.keys[m.key], m.seq
	if p == nil {
		p = &producer{streams: map[string]*track{}, held: map[uint64]waiting{}}
		t.keys[m.key] = p
	}
	t.now, p.heard = inSeq, inSeq
	if t.plan.traffic.Unnumbered {
		return t.use(p, m, inSeq, 0)
	}
	_, again := p.held[seq]
	switch {
	case seq <= p.last || again:
		t.dropped++
		return nil
	case seq > p.last+1:
		p.held[seq] = waiting{m, inSeq}
		return t.giveUp(p, t.reorder)
	}
	p.last = seq
	if err := t.use(p, m, inSeq, 0); err != nil {
		return err
	}
	return t.flush(p, outcome.FlagReordered)
}

// meant takes the messages as the producers mean them, each key's in their
// order, from number from on: the right predictions if nothing is lost.
func (t *truth) meant(from map[string]int) error {
	for _, key := range t.plan.keys {
		all := t.plan.messages[key]
		for _, m := range all[from[key]:] {
			if err := t.take(m, 0); err != nil {
				return err
			}
		}
		from[key] = len(all)
	}
	return nil
}

// giveUp declares messages missing while more than most others wait for them.
func (t *truth) giveUp(p *producer, most int) error {
	for len(p.held) > most {
		p.first = p.first || p.last == 0
		p.happened(outcome.FlagGap)
		p.last = slices.Min(slices.Collect(maps.Keys(p.held))) - 1
		if err := t.flush(p, 0); err != nil {
			return err
		}
	}
	return nil
}

// flush uses waiting messages whose turn it is.
func (t *truth) flush(p *producer, f outcome.Flag) error {
	for {
		w, ok := p.held[p.last+1]
		if !ok {
			return nil
		}
		p.last++
		delete(p.held, p.last)
		if err := t.use(p, w.m, w.inSeq, f); err != nil {
			return err
		}
		if f != 0 {
			t.late++
		}
	}
}

// use gives a message to its streams. f is a flag of its samples.
func (t *truth) use(p *producer, m *input, inSeq uint64, f outcome.Flag) error {
	if m.damaged {
		t.damaged[inSeq] = true
		if len(p.streams) == 0 { // a stream that begins now, under the key's own name
			p.stream(m.key)
		}
		p.happened(outcome.FlagPoisonSkipped)
		return nil
	}
	for i := range m.rows() {
		id := m.stream(i)
		t.owner[id] = m.key
		s := p.stream(id)
		if slices.Index(m.ids, id) == i || m.ids == nil && i == 0 { // the stream's first row here
			s.mark |= f
		}
		if err := t.sample(s, id, m, i); err != nil {
			return err
		}
	}
	p.mark = 0
	return nil
}

// happened notes what may concern any of the key's streams.
func (p *producer) happened(f outcome.Flag) {
	p.mark |= f
	for _, s := range p.streams {
		s.mark |= f
	}
}

func (p *producer) stream(id string) *track {
	s := p.streams[id]
	if s == nil {
		s = &track{mark: p.mark}
		if p.first {
			s.mark |= outcome.FlagGap
		}
		p.streams[id] = s
	}
	return s
}

// sample takes row i of m and makes the predictions that end with it.
func (t *truth) sample(s *track, id string, m *input, i int) error {
	if t.heard != nil {
		t.heard[id] = append(t.heard[id], heard{m.seq, uint32(i), m.times[i], m.x[i*channels], m.x[i*channels+1], s.mark})
	}
	if s.mark != 0 {
		s.marks = append(s.marks, flagged{s.n, s.mark})
		s.mark = 0
	}
	s.x = append(s.x, m.x[i*channels:(i+1)*channels]...)
	s.follow(t.readouts.of(m.key))
	s.n++
	s.seq, s.row, s.time, s.heard = m.seq, uint32(i), m.times[i], t.now
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
		s.forget(max(s.from, s.n-pol.Length+1))
	case ends:
		s.start = s.n
		s.forget(s.n)
	}
	return nil
}

// predict computes the prediction of the samples from begin to now. f are flags
// in addition to those of its samples.
func (t *truth) predict(s *track, id string, begin int, f outcome.Flag) error {
	x := s.x[(begin-s.from)*channels:]
	columns := t.model.Readouts[0].Columns()
	scores := make([]float32, columns*len(t.model.Readouts))
	run := reservoir.Run{Reset: true, Emit: true, To: int32(len(x) / channels)}
	if err := t.engine.Advance(x, []reservoir.Run{run}, scores); err != nil {
		return err
	}
	for _, m := range s.marks {
		// A window that begins with the sample after the event lacks
		// nothing; another sequence may lack samples.
		if m.at > begin || m.at == begin && t.model.Policy.Kind != reservoir.Window {
			f |= m.flag
		}
	}
	p := codec.Prediction{Stream: id, Seq: s.seq, Row: s.row, Time: s.time, Answer: outcome.Answer{Flags: f | unlike(x)}}
	by := func(which int) codec.Prediction {
		p.Readout, p.Scores = t.readouts.name(which), scores[which*columns:(which+1)*columns]
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
	t.readouts.count(which)
	t.total++
	return nil
}

// unlike is the flags that a sequence's samples need: a value outside the range
// by more than half of it, a channel with one value nine times in a row.
func unlike(x []float32) (f outcome.Flag) {
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

// forget drops samples before number from, and events before it.
func (s *track) forget(from int) {
	s.x = slices.Delete(s.x, 0, (from-s.from)*channels)
	s.from = from
	s.marks = slices.DeleteFunc(s.marks, func(m flagged) bool { return m.at < from })
}
