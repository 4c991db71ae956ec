package cpu_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestVector holds every vector engine this machine can run to the conformance
// suite, on one thread and on several.
func TestVector(t *testing.T) {
	for _, kind := range []cpu.Kind{"avx512", "avx2", "neon"} {
		t.Run(string(kind), func(t *testing.T) {
			if !slices.Contains(cpu.Kinds(reservoir.Spec{}), kind) {
				parts.Absent(t, string(kind), "this machine or build has no %s", kind)
			}
			for name, threads := range map[string]int{"1 thread": 1, "3 threads": 3} {
				t.Run(name, func(t *testing.T) {
					enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
						e, err := cpu.New(net, slots, cpu.Options{Kind: kind, Threads: threads})
						if err != nil || threads == 1 {
							return e, err
						}
						return cpu.ForceThreads(e), nil
					})
				})
			}
			// The suite's few streams would not reach every kernel.
			for _, shape := range []string{"single", "narrow", "wide"} {
				t.Run(shape, func(t *testing.T) {
					enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
						e, err := cpu.New(net, slots, cpu.Options{Kind: kind, Threads: 1})
						if err != nil {
							return nil, err
						}
						return cpu.ForceShape(e, shape), nil
					})
				})
			}
		})
	}
}

// TestVectorMixed: every vector engine of kind mixed, on one thread and on several;
// blocks of members divide a single stream among threads. Only the generic engine
// supports a tanh.
func TestVectorMixed(t *testing.T) {
	cubic, err := reservoir.Bank("standard", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []cpu.Kind{"avx512", "avx2", "neon"} {
		for _, threads := range []int{1, 2, 3} { // 3 are more than most networks of the suite have blocks
			t.Run(fmt.Sprintf("%s/threads=%d", kind, threads), func(t *testing.T) {
				if !slices.Contains(cpu.Kinds(cubic), kind) {
					parts.Absent(t, string(kind), "this machine or build has no %s for networks of kind mixed", kind)
				}
				enginetest.Mixed(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
					if net.Spec.Taps.Activation == reservoir.Tanh {
						return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
					}
					e, err := cpu.New(net, slots, cpu.Options{Kind: kind, Threads: threads})
					if err != nil || threads == 1 {
						return e, err
					}
					return cpu.ForceThreads(e), nil
				})
			})
		}
	}
}

// FuzzVector holds every engine of this machine to the reference on recipes
// that were not thought of.
func FuzzVector(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint16(50), uint8(2), uint8(0), uint8(31))
	f.Add(uint64(2), uint8(1), uint16(100), uint8(6), uint8(1), uint8(1))
	f.Add(uint64(3), uint8(2), uint16(33), uint8(9), uint8(2), uint8(22))
	kinds := []reservoir.Kind{reservoir.EuSN, reservoir.ESN, reservoir.RESN}
	f.Fuzz(func(t *testing.T, seed uint64, members uint8, units uint16, channels, kind, features uint8) {
		s := reservoir.Spec{
			Arithmetic: reservoir.Arithmetic, Kind: kinds[int(kind)%3], Precision: reservoir.Float32, Seed: seed,
			Members: 1 + int(members)%4, Units: 1 + int(units)%270, Channels: 1 + int(channels)%9,
			Standardize: seed%2 == 0, Difference: seed%3 == 0, Subset: int(seed % 5),
			Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1),
		}
		if s.Kind == reservoir.EuSN {
			s.Eps, s.Gamma, s.Recurrent = reservoir.Dist{Lo: .01, Hi: .5}, reservoir.Fixed(.01), reservoir.Fixed(.3)
		} else {
			s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Fixed(.3)
		}
		for i, name := range reservoir.AllFeatures {
			if features>>i&1 == 1 {
				s.Features = append(s.Features, name)
			}
		}
		if len(s.Features) == 0 {
			s.Features = []reservoir.Feature{reservoir.Last}
		}
		shape := []string{"", "single", "narrow", "wide"}[seed/7%4]
		for _, level := range cpu.Kinds(reservoir.Spec{}) {
			if level == "generic" {
				continue
			}
			open := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				e, err := cpu.New(net, slots, cpu.Options{Kind: level, Threads: 1 + int(seed%3)})
				if err != nil {
					return nil, err
				}
				if seed%5 > 0 {
					cpu.ForceThreads(e)
				}
				return cpu.ForceShape(e, shape), nil
			}
			enginetest.Random(t, open, s, seed, 3, 30)
		}
	})
}

// TestNew: the choice of engine is an argument, and a wrong choice is an error.
func TestNew(t *testing.T) {
	net, err := reservoir.Draw(reservoir.Spec{Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 1, Units: 4, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1)})
	if err != nil {
		t.Fatal(err)
	}
	kinds := cpu.Kinds(reservoir.Spec{})
	if kinds[len(kinds)-1] != "generic" {
		t.Errorf("the kinds are %v, want generic last", kinds)
	}
	for _, kind := range append([]cpu.Kind{"", cpu.Auto}, kinds...) {
		e, err := cpu.New(net, 1, cpu.Options{Kind: kind})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		want := kind
		if kind == "" || kind == cpu.Auto {
			want = kinds[0]
		}
		if e.Name() != string(want) {
			t.Errorf("%s makes the engine %s", kind, e.Name())
		}
		for range 2 { // closing twice is harmless
			if err := e.Close(); err != nil {
				t.Errorf("%s: close: %v", kind, err)
			}
		}
		if e.Slots() != 0 {
			t.Errorf("%s: a closed engine keeps its states", kind)
		}
	}
	if _, err := cpu.New(net, 1, cpu.Options{Kind: "avx1024"}); err == nil || !strings.Contains(err.Error(), "generic") {
		t.Errorf("an unknown kind gives %v, want an error that lists the known ones", err)
	}
	if _, err := kernel.MeasurePeak("avx1024", 0); err == nil {
		t.Error("an unknown kind has a peak")
	}
	if _, err := cpu.New(net, 1, cpu.Options{Threads: -1}); err == nil {
		t.Error("-1 threads were taken")
	}
	for _, slots := range []int{0, math.MaxInt / 8} {
		if _, err := cpu.New(net, slots, cpu.Options{Threads: 1}); err == nil {
			t.Errorf("%d slots were taken", slots)
		}
	}
}

// TestManyFeatures: beyond 65,536 features streams emit one by one, not eight
// at a time.
func TestManyFeatures(t *testing.T) {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 3300, Units: 4, Precision: reservoir.Float32,
		Features: reservoir.AllFeatures, Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	for _, kind := range cpu.Kinds(reservoir.Spec{}) {
		t.Run(string(kind), func(t *testing.T) {
			enginetest.Random(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Kind: kind, Threads: 1})
			}, s, 1, 1, 6)
		})
	}
}

// TestThreadsEnd: an engine's threads live as long as the engine.
func TestThreadsEnd(t *testing.T) {
	net, err := reservoir.Draw(reservoir.Spec{Arithmetic: reservoir.Arithmetic, Kind: reservoir.RESN, Channels: 1, Members: 1, Units: 4, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, SpectralRadius: reservoir.Fixed(.9), Leak: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1)})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for range 20 {
		e, err := cpu.New(net, 1, cpu.Options{Threads: 5})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A thread that has announced its end may still be counted.
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines after 20 engines with 4 each, %d before", runtime.NumGoroutine(), before)
}

// TestAdvanceAllocatesNothing: a call of a known shape allocates nothing, on
// any engine, on one thread or several.
func TestAdvanceAllocatesNothing(t *testing.T) {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 2, Members: 3, Units: 21, Precision: reservoir.Float32,
		Standardize: true, Difference: true, Features: reservoir.AllFeatures,
		Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	for _, kind := range []reservoir.Kind{reservoir.EuSN, reservoir.RESN} {
		if s.Kind = kind; kind == reservoir.RESN {
			s.Eps, s.Recurrent, s.SpectralRadius, s.Leak = reservoir.Dist{}, reservoir.Dist{}, reservoir.Fixed(.9), reservoir.Fixed(.3)
		}
		net, err := reservoir.Draw(s)
		if err != nil {
			t.Fatal(err)
		}
		n := s.FeatureCount()
		linear := &readout.Linear{Name: "h", Classes: []string{"a", "b", "c"}, Center: make([]float32, n), Weights: make([]float32, 3*n), Intercept: make([]float32, 3)}
		const streams, samples = 40, 5
		in, scores := make([]float32, 2*streams*samples), make([]float32, 3*streams)
		var runs, even []reservoir.Run
		for i := range int32(streams) {
			even = append(even, reservoir.Run{Slot: i, From: i, To: i + 1, Emit: i%2 == 0})
			runs = append(runs, reservoir.Run{Slot: i, From: i * samples, To: i*samples + 1 + i%samples, Reset: i%3 == 0, Emit: i%2 == 0})
		}
		for _, engine := range cpu.Kinds(reservoir.Spec{}) {
			for _, threads := range []int{1, 3} {
				e, err := cpu.New(net, streams, cpu.Options{Kind: engine, Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				if threads > 1 && engine != "generic" {
					cpu.ForceThreads(e)
				}
				if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
					t.Fatal(err)
				}
				for name, runs := range map[string][]reservoir.Run{"ragged": runs, "even": even} {
					for _, n := range []int{1, 7, streams} {
						allocs := testing.AllocsPerRun(20, func() {
							if err := e.Advance(in, runs[:n], scores); err != nil {
								t.Fatal(err)
							}
						})
						if allocs > 0 {
							t.Errorf("%s, %s, %d threads, %d streams, %s: %v allocations a call, want none", kind, engine, threads, n, name, allocs)
						}
					}
				}
				e.Close()
			}
		}
	}
}
