//go:build linux || darwin

package cpu

import (
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

// TestLargePool: the states of many slots are outside the garbage collector, are
// all reset, lie in lines, and hold written values.
func TestLargePool(t *testing.T) {
	for _, name := range []string{"euler", "standard"} {
		spec, err := reservoir.Bank(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		net, err := reservoir.Draw(spec.ForLength(100))
		if err != nil {
			t.Fatal(err)
		}
		slots := 3 * ownMemory / (4 * engine.LayoutOf(net.Spec).Words)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := newPool(net, slots)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if heap := after.TotalAlloc - before.TotalAlloc; heap > ownMemory {
			t.Errorf("%s: %d slots allocated %d bytes of the garbage collector's memory", name, slots, heap)
		}
		first, last, state := make([]uint32, p.layout.Words), make([]uint32, p.layout.Words), slices.Clone(p.state(0))
		if p.layout.Mixed != nil && uintptr(unsafe.Pointer(&p.state(1)[p.layout.First]))%64 != 0 {
			t.Errorf("%s: the first member of slot 1 is not at the start of a line", name)
		}
		unit := p.layout.State
		if p.layout.Mixed != nil {
			unit = p.layout.First
		}
		state[unit] = math.Float32bits(.5)
		for slot, into := range map[int32][]uint32{0: first, int32(slots - 1): last} {
			if err := p.ReadState(slot, into); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(first, last) {
			t.Errorf("%s: the first and the last slot differ at first", name)
		}
		if err := p.WriteState(int32(slots-1), state); err != nil {
			t.Fatal(err)
		}
		if err := p.ReadState(int32(slots-1), last); err != nil || !slices.Equal(last, state) {
			t.Errorf("%s: the last slot does not hold what was written: %v", name, err)
		}
		p.free()
		p.free() // a second Close does nothing
		if err := p.ReadState(0, last); err == nil {
			t.Errorf("%s: a pool that is closed has a slot", name)
		}
	}
}
