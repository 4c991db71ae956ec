package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Readouts has the readouts of a job by their names. It does not wait for a server.
// One that it cannot give is asked for again: the partition that needs it waits.
type Readouts interface {
	Readout(name string) (*readout.Linear, error)
}

// scored is a readout that the engine scores.
type scored struct {
	name     string // empty = the one that the job began with
	linear   *readout.Linear
	novel    *detecting // nil: it has no detector
	from     int        // its first column among the engine's scores
	detector int        // the place of its detector among the engine's
	used     bool       // since trim last looked
}

// keepReadout is how long a readout that answers nothing is still scored.
const keepReadout = 10 * time.Second

// readoutOf is the readout that scores a prediction, and its first column.
func (h *scored) readoutOf(p *codec.Prediction) (l *readout.Linear, from int) {
	l, from = h.linear.For(p.Early()), h.from
	if l != h.linear {
		from += h.linear.Columns()
	}
	return l, from
}

// readouts are the readouts that the engine scores: the one that the job began with
// and, where another was promoted, those that open sequences need. One that is
// needed again comes back, so that nothing depends on which are there.
type readouts struct {
	all     []scored
	source  Readouts // nil: there is the first alone
	first   *readout.Linear
	trimmed time.Time
	shadowing
}

// readoutIndex is the place of a readout among those that are scored.
func (s *slots) readoutIndex(name string) (int, error) {
	for i := range s.readouts.all {
		if s.readouts.all[i].name == name {
			return i, nil
		}
	}
	return s.adoptReadout(name)
}

// adoptReadout has the engine score one more readout.
func (s *slots) adoptReadout(name string) (int, error) {
	l, err := s.readouts.findReadout(name)
	if err != nil {
		return 0, fmt.Errorf("pipeline: readout %s, which was promoted for the sequences of this partition: %w: %w", name, err, store.ErrLater)
	}
	if err := s.scoreRows(append(slices.Clone(s.readouts.all), scoredBy(name, l))); err != nil {
		return 0, fmt.Errorf("pipeline: readout %s beside %d others: %w: %w", name, len(s.readouts.all), err, store.ErrLater)
	}
	return len(s.readouts.all) - 1, nil
}

func (h *readouts) findReadout(name string) (*readout.Linear, error) {
	if name == "" {
		return h.first, nil
	}
	if h.source == nil {
		return nil, fmt.Errorf("there is no registry to read it from")
	}
	l, err := h.source.Readout(name)
	if err == nil {
		err = CanFollow(h.first, l)
	}
	return l, err
}

// CanFollow says why a readout cannot answer in a job that began with another
// one.
func CanFollow(first, l *readout.Linear) error {
	if l.Features() != first.Features() {
		return fmt.Errorf("it reads %d features, the job's states have %d: it was trained on another network", l.Features(), first.Features())
	}
	if (l.Interval == nil) != (first.Interval == nil) {
		return fmt.Errorf("one of the two predicts a number and the other classes (%q and %q): a job keeps to what it predicts; for the other, start a new job", l.Classes, first.Classes)
	}
	if !slices.Equal(l.Classes, first.Classes) {
		return fmt.Errorf("its classes are %q, those of the job are %q: a job keeps its classes and their order; for others, start a new job", l.Classes, first.Classes)
	}
	return nil
}

// scoreRows gives the engine its readouts, and behind them those of shadows, as far as it
// takes them. No state changes.
func (s *slots) scoreRows(all []scored) error {
	columns := 0
	var list []*readout.Linear
	var novel []*novelty.Detector
	add := func(some []scored) {
		for i := range some {
			some[i].from = columns
			from := len(list)
			list = appendLinear(list, some[i].linear)
			columns += (len(list) - from) * some[i].linear.Columns()
			if d := some[i].novel; d != nil {
				some[i].detector = len(novel)
				novel = append(novel, d.detector)
			}
		}
	}
	add(all)
	answering, detecting := len(list), len(novel)
	add(s.readouts.shadows)
	err := s.pool.setReadouts(list, novel)
	if err != nil && len(s.readouts.shadows) > 0 {
		s.readouts.refused, s.readouts.shadows = err, nil
		err = s.pool.setReadouts(list[:answering], novel[:detecting])
	}
	if err != nil {
		return err
	}
	s.readouts.all, s.readouts.trimmed = all, time.Now()
	return nil
}

// loadShadows has the engine score the shadows that are wanted. It belongs where no
// prediction waits for its scores. It returns those that are scored, or those that the
// engine does not take, and once why.
func (s *slots) loadShadows() (all, left []Shadow, refused, err error) {
	h := &s.readouts
	if want := h.wanted.Load(); want != h.have {
		h.have, h.shadows, h.refused = want, nil, nil
		if want != nil {
			for _, one := range *want {
				h.shadows = append(h.shadows, scoredBy(one.Name, one.Linear))
			}
		}
		if err := s.scoreRows(slices.Clone(h.all)); err != nil {
			return nil, nil, nil, err
		}
	}
	refused, h.refused = h.refused, nil
	switch {
	case len(h.shadows) > 0:
		all = *h.have
	case h.have != nil:
		left = *h.have
	}
	return all, left, refused, nil
}

// unloadUnused drops readouts that have answered nothing for a while. It belongs after an
// engine call, when no prediction waits for its scores.
func (s *slots) unloadUnused(now time.Time) error {
	if len(s.readouts.all) == 1 || now.Sub(s.readouts.trimmed) < keepReadout {
		return nil
	}
	kept := make([]scored, 0, len(s.readouts.all))
	for _, h := range s.readouts.all {
		if h.used {
			h.used = false
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 || len(kept) == len(s.readouts.all) {
		for i := range s.readouts.all {
			s.readouts.all[i].used = false
		}
		s.readouts.trimmed = now
		return nil
	}
	return s.scoreRows(kept)
}
