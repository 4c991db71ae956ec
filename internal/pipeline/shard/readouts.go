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

// Readouts returns the readouts of a job by name, without waiting for a server. After
// an error the partition that needs the readout waits, and asks again.
type Readouts interface {
	Readout(name string) (*readout.Linear, error)
}

// scored is a readout scored by the engine.
type scored struct {
	name     string // empty = the job's first readout
	linear   *readout.Linear
	novel    *detecting // nil: no detector
	from     int        // its first column among the engine's scores
	detector int        // index of its detector in the engine
	used     bool       // since trim last looked
}

// keepReadout is how long a readout without predictions is still scored.
const keepReadout = 10 * time.Second

// readoutOf returns the readout that scores a prediction, and the readout's first
// column.
func (h *scored) readoutOf(p *codec.Prediction) (l *readout.Linear, from int) {
	l, from = h.linear.For(p.Early()), h.from
	if l != h.linear {
		from += h.linear.Columns()
	}
	return l, from
}

// readouts are the readouts scored by the engine: the job's first readout and, after
// promotions, the readouts needed by open sequences. A readout that is needed later is
// reloaded, so no result depends on the loaded set.
type readouts struct {
	all     []scored
	source  Readouts // nil: only the first readout
	first   *readout.Linear
	trimmed time.Time
	shadowing
}

// readoutIndex returns the index of a readout among the scored readouts.
func (s *slots) readoutIndex(name string) (int, error) {
	for i := range s.readouts.all {
		if s.readouts.all[i].name == name {
			return i, nil
		}
	}
	return s.adoptReadout(name)
}

// adoptReadout makes the engine score one more readout.
func (s *slots) adoptReadout(name string) (int, error) {
	l, err := s.readouts.findReadout(name)
	if err != nil {
		return 0, fmt.Errorf("pipeline: readout %s, which was promoted for the sequences of this partition: %w: %w", name, err, store.ErrLater)
	}
	if err := s.scoreRows(append(slices.Clone(s.readouts.all), scoredBy(name, l))); err != nil {
		return 0, fmt.Errorf("pipeline: readout %s in addition to %d others: %w: %w", name, len(s.readouts.all), err, store.ErrLater)
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

// CanFollow returns the reason why a readout cannot predict in a job whose first
// readout is first.
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

// scoreRows gives the engine its readouts, followed by as many shadows as the engine
// accepts. No state changes.
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

// loadShadows makes the engine score the wanted shadows. Call it only while no
// prediction waits for scores. It returns the scored shadows, or the shadows that the
// engine does not accept, and once the reason.
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

// unloadUnused drops readouts that have made no predictions for a while. Call it after
// an engine call, while no prediction waits for scores.
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
