package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// benchKind is an engine to measure.
type benchKind struct {
	name string
	open func(net *reservoir.Network, slots, threads int) (reservoir.Engine, error)
	set  string // the instruction set of the peak to compare with; empty: not measurable
	slow bool
	one  bool // threads make no difference
}

// benchKinds are the engines to measure: all available engines, or the requested engine.
func benchKinds(a *cli.App, o *benchOptions) []benchKind {
	if engines.IsGPU(a.Engine) {
		open := engines.NewGPU(a.Engine, 0)
		return []benchKind{{name: a.Engine, one: true, open: func(net *reservoir.Network, slots, _ int) (reservoir.Engine, error) { return open(net, slots) }}}
	}
	all := cpu.Kinds(reservoir.Spec{})
	var kinds []benchKind
	for _, kind := range all {
		name := string(kind)
		if a.Engine != "auto" && a.Engine != name {
			continue
		}
		k := benchKind{name: name, set: name, slow: name == "generic"}
		if k.slow && a.Engine == "auto" && len(all) > 1 && o.reshaped() {
			continue // not at shapes that were not chosen for it
		}
		if k.slow { // with the instructions of the fastest engine
			k.set = strings.TrimSuffix(string(all[0]), "generic")
		}
		k.open = func(net *reservoir.Network, slots, threads int) (reservoir.Engine, error) {
			return cpu.New(net, slots, cpu.Options{Kind: kind, Threads: threads})
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// sets are the instruction sets to measure for peaks, each once.
func sets(kinds []benchKind) (all []string) {
	for _, k := range kinds {
		if k.set != "" && !slices.Contains(all, k.set) {
			all = append(all, k.set)
		}
	}
	return all
}

// engineRow is the result of a shape on an engine.
type engineRow struct {
	Bench     string  `json:"bench"` // engine
	Engine    string  `json:"engine"`
	Recipe    string  `json:"recipe,omitzero"`
	Members   int     `json:"members"`
	Units     int     `json:"units"`
	Inputs    int     `json:"inputs"`
	Streams   int     `json:"streams"`
	Steps     int     `json:"steps"`
	Threads   int     `json:"threads"`
	Random    bool    `json:"random,omitzero"`
	Rate      float64 `json:"mstep_per_s"`
	CoreTime  float64 `json:"core_ns_per_step,omitzero"` // of all threads together; CPU engines only
	GFLOPS    float64 `json:"gflops"`
	Peak      float64 `json:"peak_gflops,omitzero"` // absent without a measurable peak
	PeakShare float64 `json:"peak_share,omitzero"`
	Issue     float64 `json:"issue_operations,omitzero"` // lane operations of a step; kind mixed only
	IssueTo   float64 `json:"issue_share,omitzero"`      // their rate, relative to the peak's multiply-adds
	Bursts    int     `json:"bursts"`
	rowEnergy         // GPUs only
}

const (
	burstTime = 4 * time.Millisecond  // short enough to fall between other programs' work
	peakTime  = 40 * time.Millisecond // at most so long; otherwise as long as the burst
	mostPeak  = time.Second / 4       // for each peak of the head; an interruption waits for its end
)

// newEngineBenches makes a measurement for each shape and number of threads of each engine. With an error, the
// measurements made so far are returned.
func newEngineBenches(kinds []benchKind, o *benchOptions) (all []*engineBench, err error) {
	for _, k := range kinds {
		for _, s := range o.shapes(k) {
			for i, threads := range o.threadCounts() {
				if k.slow && threads > 1 || k.one && i > 0 {
					continue // it has one
				}
				b, err := newEngineBench(k, s, threads)
				if err != nil {
					return all, err
				}
				all = append(all, b)
			}
		}
	}
	return all, nil
}

// benchEngines measures every shape on every engine in turn.
func benchEngines(ctx context.Context, a *cli.App, o *benchOptions, out *benchPrinter) error {
	kinds := benchKinds(a, o)
	peaks, err := measurePeaks(ctx, sets(kinds), o.threadCounts(), min(o.time/4, mostPeak))
	if err != nil {
		return err
	}
	if err := out.peaks(peaks); err != nil {
		return err
	}
	all, err := newEngineBenches(kinds, o)
	defer func() {
		for _, b := range all {
			b.engine.Close()
		}
	}()
	if err != nil {
		return err
	}
	err = takeTurns(ctx, a, all, o.time)
	for _, b := range all {
		if card, ok := b.engine.(interface{ PCI() string }); ok && err == nil {
			err = b.measureEnergy(ctx, card.PCI(), max(o.time, leastEnergyTime))
		}
	}
	for _, b := range all {
		if len(b.rates) == 0 {
			continue // interrupted before its turn
		}
		if err := out.engine(b.row()); err != nil {
			return err
		}
	}
	return err
}

// threadCounts are 1 and all, or as asked for.
func (o *benchOptions) threadCounts() []int {
	if len(o.threads) > 0 {
		return o.threads
	}
	return slices.Compact([]int{1, runtime.GOMAXPROCS(0)})
}

// engineBench is a row in progress.
type engineBench struct {
	kind    benchKind
	shape   benchShape
	threads int
	work    work
	engine  reservoir.Engine
	in      []float32
	runs    []reservoir.Run
	calls   int // of a burst

	spent                time.Duration
	rates, peaks, shares []float64 // of each burst: flop/s, flop/s, ratio
	energy               rowEnergy
}

func newEngineBench(k benchKind, s benchShape, threads int) (*engineBench, error) {
	net, err := s.draw()
	if err != nil {
		return nil, err
	}
	if s.streams > (1<<28)/(s.steps*net.Spec.Channels) {
		return nil, fmt.Errorf("%d streams of %d steps of %d channels: more than 1 GiB of samples in one call", s.streams, s.steps, net.Spec.Channels)
	}
	s.members, s.units = net.Spec.Members, net.Spec.Units
	b := &engineBench{kind: k, shape: s, threads: threads, work: workOf(net), calls: 1}
	if b.engine, err = k.open(net, s.streams, threads); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.in = make([]float32, s.streams*s.steps*net.Spec.Channels)
	for i := range b.in {
		b.in[i] = float32(rng.NormFloat64())
	}
	b.runs = make([]reservoir.Run, s.streams)
	for i := range b.runs {
		b.runs[i] = reservoir.Run{Slot: int32(i), From: int32(i * s.steps), To: int32((i + 1) * s.steps)}
	}
	if s.random {
		rng.Shuffle(len(b.runs), func(i, j int) { b.runs[i].Slot, b.runs[j].Slot = b.runs[j].Slot, b.runs[i].Slot })
	}
	return b, nil
}

// takeTurns gives the rows bursts in turns, until each row has had its time.
func takeTurns(ctx context.Context, a *cli.App, all []*engineBench, each time.Duration) error {
	p := a.Progress()
	defer p.Close()
	var spent time.Duration
	for left := len(all); left > 0; {
		left = 0
		for _, b := range all {
			if len(b.rates) >= 3 && b.spent >= each {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			left++
			before := b.spent
			if err := b.turn(); err != nil {
				return err
			}
			spent += min(b.spent, each) - min(before, each)
			p.Report(spent.Milliseconds(), (each * time.Duration(len(all))).Milliseconds(), "engines, ms")
		}
	}
	return nil
}

// turn is a burst of calls and a burst of the peak. The first turn only finds the number of calls of a burst.
func (b *engineBench) turn() error {
	begin := time.Now()
	// Other rows have had the caches: a burst measures the calls after this call.
	if err := b.engine.Advance(b.in, b.runs, nil); err != nil {
		return err
	}
	at := time.Now()
	for range b.calls {
		if err := b.engine.Advance(b.in, b.runs, nil); err != nil {
			return err
		}
	}
	took := time.Since(at)
	if took < burstTime/2 && len(b.rates) == 0 {
		b.calls = int(float64(b.calls)*min(1000, float64(burstTime)/float64(max(took, 1)))) + 1
		b.spent += time.Since(begin)
		return nil
	}
	rate := 2 * b.work.multiplyAdds * float64(b.shape.streams*b.shape.steps*b.calls) / took.Seconds()
	b.rates = append(b.rates, rate)
	if b.kind.set != "" {
		peak, err := fmaRate(b.kind.set, b.threads, min(took, peakTime))
		if err != nil {
			return err
		}
		b.peaks, b.shares = append(b.peaks, peak), append(b.shares, rate/peak)
	}
	b.spent += time.Since(begin)
	return nil
}

func (b *engineBench) row() engineRow {
	s := b.shape
	rate, share := median(b.rates), median(b.shares)
	steps := rate / 2 / b.work.multiplyAdds
	coreTime := 0.
	if !b.kind.one {
		coreTime = 1e9 * float64(b.threads) / steps
	}
	return engineRow{
		Bench: "engine", Engine: b.kind.name, Recipe: s.recipe, Members: s.members, Units: s.units, Inputs: s.inputs, Streams: s.streams, Steps: s.steps,
		Threads: b.threads, Random: s.random, Rate: steps / 1e6, CoreTime: coreTime, GFLOPS: rate / 1e9,
		Peak: median(b.peaks) / 1e9, PeakShare: share, Issue: b.work.operations, IssueTo: share * b.work.operations / b.work.multiplyAdds,
		Bursts: len(b.rates), rowEnergy: b.energy,
	}
}

// median is 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
