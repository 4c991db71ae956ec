package offline

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// EngineOptions select the engines that run series through a network. The results do not depend on these options.
type EngineOptions struct {
	// NewEngine opens an engine; nil means the fastest of cpu.Kinds.
	// It is called once per thread, and each engine is closed at the end.
	NewEngine func(net *reservoir.Network, slots int) (reservoir.Engine, error)
	// Threads is the number of engines at work; 0 means all cores.
	Threads int
}

// Limits of one engine call: as many streams as vector engines fill their
// lanes with, and no more samples than a canceled job should still wait for.
const (
	callSequences = 64
	callSamples   = 1 << 15
	callValues    = 1 << 20 // of the sequences given to an engine together
)

// pass computes the states of a plan's sequences: each from a reset state
// through its points, as the live stage does.
type pass struct {
	EngineOptions
	net      *reservoir.Network
	rules    track.Rules       // with Mean; the plan's policy is used
	readouts []*readout.Linear // may be none
	// take receives a point once its sequence has reached the point: its features are the slot's, scores the
	// readouts'. Threads call take concurrently, for different points.
	take func(e reservoir.Engine, slot int32, s *cutSequence, p *point, scores []float32) error
}

// threads is the number of engines at work.
func (o EngineOptions) threads() int {
	if o.Threads < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return o.Threads
}

// run works through the source, reports the number of run samples, and returns the number of filled missing values.
func (p pass) run(ctx context.Context, t sampleSource, pl *plan, ran func(samples int64)) (missing int64, err error) {
	threads := p.threads()
	most := min(callSequences, (pl.sequences+4*threads-1)/(4*threads))
	threads = min(threads, (pl.sequences+most-1)/most)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	calls := make(chan []*cutSequence)
	told := make(chan int64) // unbuffered: the caller is never far behind
	var parts sync.WaitGroup
	part := func(f func() error) {
		parts.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	part(func() error {
		defer close(calls)
		missing, err = p.feed(ctx, t, pl, most, calls)
		return err
	})
	for range threads {
		part(func() error { return p.work(ctx, min(callSequences, pl.sequences), calls, told) })
	}
	go func() { parts.Wait(); close(told) }() // ends the loop below

	done := int64(0)
	for n := range told {
		done += n
		ran(done)
	}
	return missing, context.Cause(ctx)
}

// feed cuts the source once more, now with its samples, and gives the sequences to the engines: full calls if there
// is enough for every thread, always within the limits.
func (p pass) feed(ctx context.Context, t sampleSource, pl *plan, most int, calls chan<- []*cutSequence) (missing int64, err error) {
	rules := p.rules
	rules.Policy = pl.Policy
	cuts := newCutter(t, rules, pl.training, pl.channels)
	cuts.sites, cuts.prefixes, cuts.every, cuts.share = pl.sites, pl.prefixes, pl.every, pl.share
	var done, call []*cutSequence
	values, points := 0, 0
	send := func() error {
		select {
		case calls <- call:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		call, values, points = nil, 0, 0
		return nil
	}
	err = t.read(ctx, func(pc *chunk) (err error) {
		if done, err = cuts.cut(done[:0], pc); err != nil {
			return err
		}
		for _, s := range done {
			if len(call) > 0 && (len(call) == most || values+len(s.values) > callValues || points+len(s.points) > callPoints) {
				if err := send(); err != nil {
					return err
				}
			}
			call, values, points = append(call, s), values+len(s.values), points+len(s.points)
		}
		return nil
	})
	if err == nil && len(call) > 0 {
		err = send()
	}
	return cuts.missing, err
}

// work is the share of one engine.
func (p pass) work(ctx context.Context, slots int, calls <-chan []*cutSequence, told chan<- int64) error {
	open := p.NewEngine
	if open == nil {
		open = func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return cpu.New(net, slots, cpu.Options{Threads: 1})
		}
	}
	e, err := open(p.net, slots)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.SetReadouts(p.readouts); err != nil {
		return err
	}
	w := &worker{pass: p, engine: e, scores: make([]float32, callSequences*e.ScoreWidth())}
	for call := range calls {
		for w.begin(call); ; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n, more, err := w.step()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			told <- n
		}
	}
	return nil
}

// worker is an engine and its buffers. Sequence i of a call is in slot i.
type worker struct {
	pass
	engine reservoir.Engine
	call   []*cutSequence
	at     []int64 // rows that each sequence has taken
	next   []int   // point that each comes to
	inputs []float32
	runs   []reservoir.Run
	scores []float32
}

func (w *worker) begin(call []*cutSequence) {
	w.call = call
	w.at, w.next = make([]int64, len(call)), make([]int, len(call))
}

// No stream takes an engine to its bounds: an open sequence has at most datafile.MaxValues values. (Otherwise the
// constant does not compile.)
const _ = uint32(reservoir.MaxSteps - 2*datafile.MaxValues)

// step takes each sequence to its next point, or toward a far point, and returns the number of rows; more is false
// when all were done.
func (w *worker) step() (samples int64, more bool, err error) {
	w.inputs, w.runs = w.inputs[:0], w.runs[:0]
	c, share := int64(w.net.Spec.Channels), int64(max(1, callSamples/len(w.call)))
	for slot, s := range w.call {
		if w.next[slot] == len(s.points) {
			continue
		}
		from, to := w.at[slot], s.points[w.next[slot]].rows
		emit := to-from <= share
		to = min(to, from+share)
		at := int64(len(w.inputs)) / c
		w.inputs = append(w.inputs, s.values[from*c:to*c]...)
		w.runs = append(w.runs, reservoir.Run{
			Slot: int32(slot), Reset: from == 0, Emit: emit, From: int32(at), To: int32(at + to - from),
		})
		samples += to - from
	}
	if len(w.runs) == 0 {
		return 0, false, nil
	}
	width := w.engine.ScoreWidth()
	if err := w.engine.Advance(w.inputs, w.runs, w.scores); err != nil {
		return 0, false, fmt.Errorf("offline: %q to %q: %w", w.call[0].id, w.call[len(w.call)-1].id, err)
	}
	emitted := 0
	for _, r := range w.runs {
		slot := r.Slot
		w.at[slot] += int64(r.To - r.From)
		if !r.Emit {
			continue
		}
		s := w.call[slot]
		if err := w.take(w.engine, slot, s, &s.points[w.next[slot]], w.scores[emitted*width:(emitted+1)*width]); err != nil {
			return 0, false, err
		}
		w.next[slot]++
		emitted++
	}
	return samples, true, nil
}
