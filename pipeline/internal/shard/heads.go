package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Readouts has the readouts of a job by their names. It does not wait for a server.
// One that it cannot give is asked for again: the partition that needs it waits.
type Readouts interface {
	Readout(name string) (*readout.Linear, error)
}

// scored is a readout that the engine scores.
type scored struct {
	name   string // empty = the one that the job began with
	linear *readout.Linear
	from   int  // its first column among the engine's scores
	used   bool // since trim last looked
}

// keepHead is how long a readout that answers nothing is still scored.
const keepHead = 10 * time.Second

// heads are the readouts that the engine scores: the one that the job began with
// and, where another was promoted, those that open sequences need. One that is
// needed again comes back, so that nothing depends on which are there.
type heads struct {
	all     []scored
	source  Readouts // nil: there is the first alone
	first   *readout.Linear
	trimmed time.Time
}

// head is the place of a readout among those that are scored.
func (s *slots) head(name string) (int, error) {
	for i := range s.heads.all {
		if s.heads.all[i].name == name {
			return i, nil
		}
	}
	return s.adopt(name)
}

// adopt has the engine score one more readout.
func (s *slots) adopt(name string) (int, error) {
	l, err := s.heads.find(name)
	if err != nil {
		return 0, fmt.Errorf("pipeline: readout %s, which was promoted for the sequences of this partition: %w: %w", name, err, store.ErrLater)
	}
	if err := s.score(append(slices.Clone(s.heads.all), scored{name: name, linear: l})); err != nil {
		return 0, fmt.Errorf("pipeline: readout %s beside %d others: %w: %w", name, len(s.heads.all), err, store.ErrLater)
	}
	return len(s.heads.all) - 1, nil
}

func (h *heads) find(name string) (*readout.Linear, error) {
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
	if !slices.Equal(l.Classes, first.Classes) {
		return fmt.Errorf("its classes are %q, those of the job are %q: a job keeps its classes and their order; for others, start a new job", l.Classes, first.Classes)
	}
	return nil
}

// score gives the engine its readouts. No state changes.
func (s *slots) score(all []scored) error {
	columns := 0
	list := make([]*readout.Linear, len(all))
	for i := range all {
		all[i].from, list[i] = columns, all[i].linear
		columns += all[i].linear.Columns()
	}
	if err := s.pool.setReadouts(list); err != nil {
		return err
	}
	s.heads.all, s.heads.trimmed = all, time.Now()
	return nil
}

// trim drops readouts that have answered nothing for a while. It belongs after an
// engine call, when no prediction waits for its scores.
func (s *slots) trim(now time.Time) error {
	if len(s.heads.all) == 1 || now.Sub(s.heads.trimmed) < keepHead {
		return nil
	}
	kept := make([]scored, 0, len(s.heads.all))
	for _, h := range s.heads.all {
		if h.used {
			h.used = false
			kept = append(kept, h)
		}
	}
	if len(kept) == 0 || len(kept) == len(s.heads.all) {
		for i := range s.heads.all {
			s.heads.all[i].used = false
		}
		s.heads.trimmed = now
		return nil
	}
	return s.score(kept)
}
