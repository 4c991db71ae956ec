//go:build amd64 || arm64

package cpu_test

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestCallsBeyondRuns: every engine refuses a call of more samples than a run can name, also
// with a reset: a count of samples beyond MaxSteps would pass for a small count. (With an int of
// 32 bits no slice has this length.)
func TestCallsBeyondRuns(t *testing.T) {
	m, err := syscall.Mmap(-1, 0, 4*(1<<32+8), syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE) // never touched
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 1, Units: 9, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range cpu.Kinds(reservoir.Spec{}) {
		e, err := cpu.New(net, 2, cpu.Options{Kind: kind, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, samples := range []int{math.MaxInt32 + 1, reservoir.MaxSteps + 2} {
			err := e.Advance(unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), samples), []reservoir.Run{{Reset: true, To: 3}}, nil)
			if want := fmt.Sprintf("%d samples in a call, want at most 2147483647", samples); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", kind, err, want)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
