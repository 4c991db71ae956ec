package classify

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// streamSamples is the number of samples in a call of the engine.
const streamSamples = 64

// Stream is one stream of samples with a model: each sample advances the state, and Classify
// and Answer can be called after any sample. NewStream makes a Stream; the zero value is not
// usable. A Stream holds only memory and has no Close, and belongs to one goroutine at a
// time. For many streams an Engine is faster.
//
// A Stream applies the model's front end, but not its policy: the caller calls Reset at the
// end of each sequence.
type Stream struct {
	engine  reservoir.Engine
	readout *readout.Linear
	inputs  []float32 // a copy, so that no caller's slice escapes
	scores  []float32
	run     [1]reservoir.Run
	reset   bool          // before the next sample
	novelty *judge.Scorer // nil: the readout has no detector
	novel   [1]float32
	like    []float32 // Seen.Inputs; nil: the detector reads none
	slot    [1]int32
	answer  outcome.Answer
	set     []int32 // memory of answer.Set

	front *reservoir.Front // nil: none
	state []float64        // of the front end
	means []float32        // Seen.Statistics; empty: none
	n     int64            // samples since the stream began or was reset
}

// NewStream begins a stream in the zero state. The class is that of the model's
// first readout.
func NewStream(m *reservoir.Model) (*Stream, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if len(m.Readouts) == 0 {
		return nil, errors.New("reservoir: stream: want a model with a readout, got none: train one")
	}
	e, err := cpu.New(m.Network, 1, cpu.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	if err := e.SetReadouts(m.Readouts[:1]); err != nil {
		return nil, err
	}
	s := &Stream{
		engine: e, readout: m.Readouts[0],
		inputs: make([]float32, streamSamples*m.Network.Spec.Channels), scores: make([]float32, e.ScoreWidth()),
		front: m.Front, state: make([]float64, m.Front.StateSize(len(m.Channels))), means: make([]float32, m.Front.StatisticsSize(len(m.Channels))),
	}
	if d := s.readout.Novelty; d != nil {
		s.novelty = judge.NewScorer(d)
		if n := s.novelty.Inputs(); n > 0 {
			s.like = make([]float32, n)
		}
	}
	return s, nil
}

// Step takes the next sample, Channels values, or several consecutive samples.
// Samples with a value that is not finite or beyond MaxInput are refused with
// *InputError, and the call takes no sample.
func (s *Stream) Step(samples ...float32) error {
	c := s.engine.Network().Spec.Channels
	if len(samples)%c != 0 {
		return fmt.Errorf("reservoir: stream: want samples of %d values each, got %d values", c, len(samples))
	}
	if err := engine.CheckSamples(samples, c); err != nil {
		return err
	}
	for len(samples) > 0 {
		n := copy(s.inputs, samples)
		samples = samples[n:]
		took := n / c
		if s.front != nil {
			n = c * s.front.Run(s.state, s.n, s.inputs[:n], c)
		}
		s.run[0] = reservoir.Run{Reset: s.reset, To: int32(n / c)}
		if err := s.engine.Advance(s.inputs[:n], s.run[:], nil); err != nil {
			return err
		}
		s.n += int64(took)
		s.reset = false
	}
	return nil
}

// Classify returns the class of the samples since the start or the last Reset, and its
// probability among the model's classes; 0 if the model has no temperature. Further
// samples may follow. Before the first sample the class has no meaning.
func (s *Stream) Classify() (class string, probability float32) {
	s.update(s.readout.Detects)
	return s.readout.Classes[s.answer.Class], s.answer.Probability
}

// Novelty returns how unlike the training part the samples are since the stream began or
// was reset, and the p-value of that (novelty.Detector); both 0 if the readout has no
// detector. Further samples may follow.
func (s *Stream) Novelty() (score, p float32) {
	s.update(true)
	return s.answer.Novelty, s.answer.NoveltyP
}

// Answer returns the complete result of the readout for the samples since the start or
// the last Reset, as of a whole sequence. Its slices are valid until the next call of a
// method.
func (s *Stream) Answer() outcome.Answer {
	s.update(true)
	return s.answer
}

// update computes the answer of now; judge asks for the detector's part.
func (s *Stream) update(judge bool) {
	s.run[0] = reservoir.Run{Reset: s.reset, Emit: true}
	if err := s.engine.Advance(nil, s.run[:], s.scores); err != nil {
		panic(err) // a run without samples, of an existing slot
	}
	s.reset = false
	var seen readout.Seen
	if judge && s.novelty != nil {
		if err := s.novelty.Score(s.novel[:], s.like, s.engine, s.slot[:]); err != nil {
			panic(err) // as above
		}
		seen = readout.Seen{Judged: true, Novelty: s.novel[0], Inputs: s.like}
	}
	if len(s.means) > 0 {
		if s.n == 0 {
			clear(s.state) // of the previous sequence
		}
		s.front.Statistics(s.means, s.state, s.engine.Network().Spec.Channels)
		seen.Statistics = s.means
	}
	s.set = s.readout.Answer(&s.answer, s.scores[:s.readout.Columns()], seen, s.set[:0])
}

// Reset begins a new sequence: the stream forgets all earlier samples.
func (s *Stream) Reset() { s.reset, s.n = true, 0 }
