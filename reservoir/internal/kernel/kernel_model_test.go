//go:build amd64 && !purego

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// BenchmarkModel asks llvm-mca's model of each processor in EUSN_MODEL (-mcpu
// names, separated by commas) how many cycles a sample takes the step kernels,
// whether or not this machine can run them. It times nothing: it is a model
// without caches, branches gone wrong and the fetching of instructions.
//
// The instructions of a call are the test binary's own, disassembled by objdump
// and followed by tracer. Reported are the cycles of two samples less those of
// one, and what share of the model's own peak of multiply-adds that is.
func BenchmarkModel(b *testing.B) {
	models := os.Getenv("EUSN_MODEL")
	if models == "" {
		b.Skip("EUSN_MODEL names no processor: znver3 or icelake-server, for example")
	}
	for _, cpu := range strings.Split(models, ",") {
		for _, s := range []*Set{&setAVX512, &setAVX2} {
			b.Run(cpu+"/"+s.Name, func(b *testing.B) { benchModel(b, cpu, s) })
		}
	}
}

func benchModel(b *testing.B, cpu string, s *Set) {
	loop := "peak" + strings.ToUpper(s.Name)
	peak := 100 * peakChains / float64(modelled(b, cpu, loop, 200)-modelled(b, cpu, loop, 100)) // vectors a cycle
	for _, c := range []struct {
		lanes, units, inputs, flags int
		ring                        bool
	}{
		{s.Wide.Lanes, 100, 6, 0, false}, {s.Wide.Lanes, 200, 1, 0, false}, {s.Wide.Lanes, 50, 3, 0, false},
		{s.Wide.Lanes, 50, 4, Sum | Positive | Max | Square, false}, {s.Narrow.Lanes, 100, 6, 0, false},
		{1, 100, 6, 0, false}, {1, 100, 6, 0, true},
	} {
		b.Run(fmt.Sprintf("lanes=%d/N=%d,X=%d,flags=%d,ring=%v", c.lanes, c.units, c.inputs, c.flags, c.ring), func(b *testing.B) {
			one := modelledSteps(b, cpu, s, c.lanes, c.units, c.inputs, c.flags, c.ring, 1)
			two := modelledSteps(b, cpu, s, c.lanes, c.units, c.inputs, c.flags, c.ring, 2)
			recurrent := c.units
			if c.ring {
				recurrent = 1
			}
			flops := float64(c.units * c.lanes * (recurrent + c.inputs))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(two-one), "cycles")
			b.ReportMetric(100*flops/float64(s.Vector)/peak/float64(two-one), "%peak")
		})
	}
}

// modelledSteps is the modelled cycles of a call with so many samples.
func modelledSteps(b *testing.B, cpu string, s *Set, lanes, units, inputs, flags int, ring bool, samples int) int {
	weights := func(n int) []float32 { return make([]float32, n) }
	recurrent := units * units
	if ring {
		recurrent = units
	}
	m := s.Pack(units, inputs, weights(units), weights(units*inputs), weights(recurrent), ring)
	room := (units+inputs+64)*lanes + 64
	cur, next, sums, pending := Aligned(room), Aligned(room), Aligned(Kinds*(units+64)*lanes), Aligned(2*PendingRoom)
	x, offsets := Aligned(samples*inputs*lanes), make([]int, inputs)
	for i := range offsets {
		offsets[i] = 4 * lanes * i
	}
	first := inputs * lanes
	a := &Steps{Consts: Consts(), Cur: &cur[0], Next: &next[0], CurState: &cur[first], NextState: &next[first],
		Inputs: Address(x), InputStep: 4 * inputs * lanes, Select: &offsets[0], Selected: inputs, Depth: inputs + units,
		Pending: &pending[0], Spare: &pending[PendingRoom], Flags: flags, Gain: .01, Keep: 1, Count: samples, Units: units}
	if flags != 0 {
		a.Sums = &sums[0]
	}
	s.Use(a, &m, lanes)
	name := map[bool]string{false: "steps", true: "ring"}[ring] +
		map[int]string{1: "Single", s.Narrow.Lanes: "Narrow", s.Wide.Lanes: "Wide"}[lanes] + strings.ToUpper(s.Name)
	cycles := modelled(b, cpu, name, uint64(uintptr(unsafe.Pointer(a))))
	runtime.KeepAlive([]any{m, cur, next, sums, pending, x, offsets})
	return cycles
}

// modelled is the modelled cycles of a function with one argument.
func modelled(b *testing.B, cpu, name string, arg uint64) int {
	t := &tracer{code: disassemble(b, name)}
	mca := exec.Command("llvm-mca-19", "-mtriple=x86_64", "-mcpu="+cpu, "-iterations=1", "-instruction-info=0", "-resource-pressure=0")
	mca.Stdin = bytes.NewReader(t.follow(b, arg))
	out, err := mca.CombinedOutput()
	found := regexp.MustCompile(`Total Cycles: +(\d+)`).FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("llvm-mca-19 (Debian: llvm-19): %v\n%.500s", err, out)
	}
	cycles, _ := strconv.Atoi(string(found[1]))
	return cycles
}
