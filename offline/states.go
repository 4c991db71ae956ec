package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// EngineOptions say how series are run through a network. The results do not
// depend on them.
type EngineOptions struct {
	// NewEngine opens an engine; nil means the fastest of reservoir.CPUKinds.
	// It is called once per thread, and each engine is closed at the end.
	NewEngine func(net *reservoir.Network, slots int) (reservoir.Engine, error)
	// Threads is the number of engines that work at once; 0 means all cores.
	Threads int
}

// Limits of one engine call: as many streams as vector engines fill their
// lanes with, and no more samples than a cancelled job should still wait for.
const (
	callSeries = 64
	callValues = 1 << 20
)

// pass runs whole series through engines: each from a reset state to its last
// sample, as the live stage does with policy marked.
type pass struct {
	EngineOptions
	net   *reservoir.Network
	heads []*readout.Linear // may be none
	// take receives series k of the list once it has been run: its features
	// are those of the slot, scores the heads' row. Threads call it at the
	// same time, for different k.
	take func(e reservoir.Engine, slot, k int, scores []float32) error
}

// run works through the listed series of d in order and returns the number of
// missing values that were filled.
func (p pass) run(ctx context.Context, d *Dataset, series []int, progress Progress) (missing int64, err error) {
	threads := p.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	calls := cut(d, series, threads)
	threads = min(threads, len(calls))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type news struct {
		series, missing int
		err             error
	}
	told := make(chan news) // unbuffered: the caller is never far behind
	var next atomic.Int64
	var workers sync.WaitGroup
	for range threads {
		workers.Go(func() {
			w, err := p.open(d, series)
			if err != nil {
				told <- news{err: err}
				return
			}
			defer w.engine.Close()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(calls) {
					return
				}
				missing, err := w.call(calls[i])
				told <- news{calls[i].to - calls[i].from, missing, err}
			}
		})
	}
	go func() { workers.Wait(); close(told) }() // ends the loop below

	done := 0
	for n := range told {
		if n.err != nil {
			err = errors.Join(err, n.err)
			cancel()
		}
		done += n.series
		missing += int64(n.missing)
		progress.report(int64(done), int64(len(series)), "series run")
	}
	if err == nil && done < len(series) {
		err = context.Cause(ctx)
	}
	return missing, err
}

// span is the part [from, to) of a list of series.
type span struct{ from, to int }

// cut divides the list into engine calls: full where there is enough for
// every thread, always within the limits.
func cut(d *Dataset, series []int, threads int) []span {
	most := min(callSeries, (len(series)+4*threads-1)/(4*threads))
	var calls []span
	values := 0
	for k, i := range series {
		n := len(d.Series[i].Values)
		if last := len(calls) - 1; last >= 0 && calls[last].to-calls[last].from < most && values+n <= callValues {
			calls[last].to++
			values += n
		} else {
			calls = append(calls, span{k, k + 1})
			values = n
		}
	}
	return calls
}

// worker is one engine and its buffers.
type worker struct {
	pass
	d      *Dataset
	series []int
	engine reservoir.Engine
	inputs []float32
	runs   []reservoir.Run
	scores []float32
}

func (p pass) open(d *Dataset, series []int) (*worker, error) {
	open := p.NewEngine
	if open == nil {
		open = func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return reservoir.NewCPU(net, slots, "auto", 1)
		}
	}
	e, err := open(p.net, min(callSeries, len(series)))
	if err != nil {
		return nil, err
	}
	if err := e.SetHeads(p.heads); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &worker{pass: p, d: d, series: series, engine: e, scores: make([]float32, callSeries*e.ScoreWidth())}, nil
}

// No data set takes an engine to its bounds: a call has at most DefaultMaxValues
// samples, and so has a slot before it. (It does not compile otherwise.)
const _ = uint32(math.MaxInt32-DefaultMaxValues) + uint32(reservoir.MaxSteps-2*DefaultMaxValues)

// call runs one span, series k in slot k-from.
func (w *worker) call(s span) (missing int, err error) {
	w.inputs, w.runs = w.inputs[:0], w.runs[:0]
	for k := s.from; k < s.to; k++ {
		from, gaps := len(w.inputs), 0
		w.inputs, gaps = fill(w.inputs, w.d.Series[w.series[k]].Values, w.net.Norm.Mean)
		missing += gaps
		c := w.net.Spec.Channels
		w.runs = append(w.runs, reservoir.Run{
			Slot: int32(k - s.from), Reset: true, Emit: true,
			From: int32(from / c), To: int32(len(w.inputs) / c),
		})
	}
	width := w.engine.ScoreWidth()
	if err := w.engine.Advance(w.inputs, w.runs, w.scores[:len(w.runs)*width]); err != nil {
		return 0, w.locate(s, err)
	}
	for k := s.from; k < s.to; k++ {
		slot := k - s.from
		if err := w.take(w.engine, slot, k, w.scores[slot*width:(slot+1)*width]); err != nil {
			return 0, err
		}
	}
	return missing, nil
}

// locate says in which series the engine's complaint belongs.
func (w *worker) locate(s span, err error) error {
	var input *reservoir.InputError
	if errors.As(err, &input) {
		for i, r := range w.runs {
			if int(r.From) <= input.Row && input.Row < int(r.To) {
				return w.d.outOfRange(w.series[s.from+i], input.Row-int(r.From), input.Channel, input.Value)
			}
		}
	}
	return fmt.Errorf("offline: series %q to %q: %w", w.d.Series[w.series[s.from]].ID, w.d.Series[w.series[s.to-1]].ID, err)
}
