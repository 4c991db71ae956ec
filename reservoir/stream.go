package reservoir

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/readout"
)

// streamSamples is how many samples a Stream gives its engine at a time.
const streamSamples = 64

// Stream is one stream of samples and what a model says of it: the state is
// advanced sample by sample, and any moment has its class. It owns nothing but
// memory, so there is nothing to close; it belongs to one goroutine at a time.
// Many streams are faster in one Engine.
//
// The model's policy is not applied: the caller calls Reset where a sequence
// ends. Its front end is.
type Stream struct {
	engine  Engine
	readout *readout.Linear
	inputs  []float32 // a copy, so that no caller's slice escapes
	scores  []float32
	run     [1]Run
	reset   bool     // before the next sample
	novelty *Novelty // nil: the readout has no detector
	novel   [1]float32

	front *Front    // nil: none
	state []float64 // of the front end
	n     int64     // samples since the stream began or was reset
}

// NewStream begins a stream in the zero state. The class is that of the model's
// first readout.
func NewStream(m *Model) (*Stream, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if len(m.Readouts) == 0 {
		return nil, errors.New("reservoir: stream: want a model with a readout, got none: train one")
	}
	e, err := NewCPU(m.Network, 1, "auto", 1)
	if err != nil {
		return nil, err
	}
	if err := e.SetReadouts(m.Readouts[:1]); err != nil {
		return nil, err
	}
	s := &Stream{
		engine: e, readout: m.Readouts[0],
		inputs: make([]float32, streamSamples*m.Network.Spec.Channels), scores: make([]float32, e.ScoreWidth()),
		front: m.Front, state: make([]float64, m.Front.StateSize(len(m.Channels))),
	}
	if d := s.readout.Novelty; d != nil {
		s.novelty = NewNovelty(d)
	}
	return s, nil
}

// Step takes the next sample, Channels values, or several, one after the other.
// Samples with a value that is not finite or beyond MaxInput are refused with
// *InputError, and none of them is taken.
func (s *Stream) Step(samples ...float32) error {
	c := s.engine.Network().Spec.Channels
	if len(samples)%c != 0 {
		return fmt.Errorf("reservoir: stream: want samples of %d values each, got %d values", c, len(samples))
	}
	if err := firstBad(samples, c); err != nil {
		return err
	}
	for len(samples) > 0 {
		n := copy(s.inputs, samples)
		samples = samples[n:]
		took := n / c
		if s.front != nil {
			n = c * s.front.Run(s.state, s.n, s.inputs[:n], c)
		}
		s.run[0] = Run{Reset: s.reset, To: int32(n / c)}
		if err := s.engine.Advance(s.inputs[:n], s.run[:], nil); err != nil {
			return err
		}
		s.n += int64(took)
		s.reset = false
	}
	return nil
}

// Classify is the class of the samples since the stream began or was reset, and
// its probability among the model's classes; 0 where the model knows none.
// Further samples may follow. Before the first one it says nothing of the
// stream.
func (s *Stream) Classify() (class string, probability float32) {
	s.score()
	if s.readout.Detects {
		s.Novelty()
	}
	return s.readout.Classes[s.readout.Class(s.scores)], s.readout.Probability(s.scores)
}

// score asks the engine for the scores of now.
func (s *Stream) score() {
	s.run[0] = Run{Reset: s.reset, Emit: true}
	if err := s.engine.Advance(nil, s.run[:], s.scores); err != nil {
		panic(err) // a run without samples, of a slot that is there
	}
	s.reset = false
}

// Novelty is how unlike the training part the samples are since the stream began or was
// reset, and the p-value of that (novelty.Detector); both 0 where the readout has no
// detector. Further samples may follow.
func (s *Stream) Novelty() (score, p float32) {
	if s.novelty == nil {
		return 0, 0
	}
	if s.reset {
		s.score()
	}
	var slot [1]int32
	if err := s.novelty.Score(s.novel[:], nil, s.engine, slot[:]); err != nil {
		panic(err) // as above
	}
	return s.novel[0], s.readout.Detect(s.scores, s.novel[0])
}

// Reset begins a new sequence: what came before is forgotten.
func (s *Stream) Reset() { s.reset, s.n = true, 0 }
