package cpu_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// guarded makes n values that end at the start of forbidden memory, or begin at
// its end: access to one value too far is a crash.
func guarded(t *testing.T, n int, atEnd bool) []float32 {
	t.Helper()
	page := syscall.Getpagesize()
	room := (4*n + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	for _, guard := range [][]byte{m[:page], m[page+room:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	at := page
	if atEnd {
		at += room - 4*n
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[at])), n)
}

// TestCallsStayInside: engines read no input and write no score outside the
// caller's, although tiles take streams of different lengths side by side.
func TestCallsStayInside(t *testing.T) {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 3, Members: 1, Units: 9, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	linear := &readout.Linear{Name: "h", Classes: []string{"a", "b", "c"}, Center: make([]float32, 9), Weights: make([]float32, 27), Intercept: make([]float32, 3)}
	for _, kind := range cpu.Kinds(reservoir.Spec{}) {
		t.Run(string(kind), func(t *testing.T) {
			for _, difference := range []bool{false, true} {
				s.Difference = difference
				net, err := reservoir.Draw(s)
				if err != nil {
					t.Fatal(err)
				}
				for _, shape := range []string{"", "single", "narrow", "wide"} {
					e, err := cpu.New(net, guardedStreams, cpu.Options{Kind: kind, Threads: 1})
					if err != nil {
						t.Fatal(err)
					}
					if kind != cpu.Generic {
						cpu.ForceShape(e, shape)
					}
					if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
						t.Fatal(err)
					}
					staysInside(t, e)
					e.Close()
				}
			}
		})
	}
}

const guardedStreams = 40

// staysInside advances streams of different numbers by calls of equal and then
// of different lengths.
func staysInside(t *testing.T, e reservoir.Engine) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	for _, atEnd := range []bool{false, true} {
		for call := range 6 {
			var runs []reservoir.Run
			samples := int32(0)
			for i := range int32(1 + rng.IntN(guardedStreams)) {
				n := int32(1)
				if call > 1 { // the first calls are of equal lengths
					n += rng.Int32N(6)
				}
				runs = append(runs, reservoir.Run{Slot: i, From: samples, To: samples + n, Emit: true})
				samples += n
			}
			inputs, scores := guarded(t, int(samples)*3, atEnd), guarded(t, len(runs)*3, atEnd)
			if err := e.Advance(inputs, runs, scores); err != nil {
				t.Fatal(err)
			}
		}
	}
}
