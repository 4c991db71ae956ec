//go:build linux && cgo

package gpu

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// twin computes each launch in Go as documented, for one network: it tests only
// the host side, at sizes that take the interpreter minutes.
type twin struct {
	*cudatest.Memory
	net *reservoir.Network
	g   reservoir.Engine
}

func newTwin(net *reservoir.Network) (twin, error) {
	g, err := cpu.New(net, 1, cpu.Options{Kind: cpu.Generic})
	return twin{new(cudatest.Memory), net, g}, err
}

func (w twin) Load(ptx string) (cudatest.Module, error) { return w, nil }

func (w twin) Kernel(name string) (cudatest.Kernel, bool) {
	return cudatest.Kernel{Params: int(unsafe.Sizeof(kernels.Args{})), Threads: 1024}, true
}

func valuesAt[T any](w twin, address uint64, n int) []T {
	var t T
	b, err := w.At(address, n*int(unsafe.Sizeof(t)))
	if err != nil {
		panic(err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func (w twin) Launch(name string, grid, block [3]uint32, shared int, params []byte) error {
	a := *(*kernels.Args)(unsafe.Pointer(&params[0]))
	runs := valuesAt[kernels.Run](w, a.Runs, int(a.RunCount))
	switch {
	case strings.HasSuffix(name, "_scores"):
		for _, i := range valuesAt[uint32](w, a.Emits, int(a.EmitCount)) {
			w.score(&a, runs[i])
		}
	default:
		g := w.g
		for _, r := range runs {
			// Streamed kernels: all at step 0. Of kind mixed: all with the tap members.
			if finish := strings.HasSuffix(name, "_finish"); finish != (r.Count == 0) || !finish && a.Step > 0 {
				continue
			}
			state := valuesAt[uint32](w, a.Rows+4*uint64(r.Slot)*uint64(a.Shape.RowWords), int(a.Shape.RowWords))
			inputs := valuesAt[float32](w, a.Inputs, int(r.From+r.Count)*int(a.Shape.Channels))
			if err := g.WriteState(0, state); err != nil {
				return err
			}
			if steps := state[0]; r.Flags&kernels.RunReset == 0 && steps != r.Steps {
				return fmt.Errorf("slot %d has taken %d samples, its run says %d", r.Slot, steps, r.Steps)
			}
			if err := g.Advance(inputs, []reservoir.Run{{Reset: r.Flags&kernels.RunReset != 0, From: int32(r.From), To: int32(r.From + r.Count)}}, nil); err != nil {
				return err
			}
			if err := g.ReadState(0, state); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w twin) score(a *kernels.Args, r kernels.Run) {
	s := w.net.Spec
	features := make([]float32, s.FeatureCount())
	engine.LayoutOf(s).FeaturesOf(s, valuesAt[uint32](w, a.Rows+4*uint64(r.Slot)*uint64(a.Shape.RowWords), int(a.Shape.RowWords)), features)
	out := valuesAt[float32](w, a.Scores+4*uint64(r.Score)*uint64(a.Shape.ScoreWidth), int(a.Shape.ScoreWidth))
	n := len(features)
	for done, t := uint32(0), uint64(0); done < a.Shape.ScoreWidth; t++ {
		tile := valuesAt[uint32](w, a.Readouts+16*t, 4) // center, weights, columns, first
		center := valuesAt[float32](w, a.Readouts+4*uint64(tile[0]), 2*n)
		limit := center[n:]
		weights := valuesAt[float32](w, a.Readouts+4*uint64(tile[1]), 8*(n+1))
		for c := range tile[2] {
			acc := weights[c]
			for f, v := range features {
				acc = canon.FMA(weights[8*(f+1)+int(c)], max(-limit[f], min(v-center[f], limit[f])), acc)
			}
			out[tile[3]+c] = acc
		}
		done += tile[2]
	}
}
