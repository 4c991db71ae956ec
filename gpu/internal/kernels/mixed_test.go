package kernels

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Package gpu runs the conformance suite of kind mixed; see also shapes_test.go.

// TestMixedHasNoProducts: tensor cores refuse a mixed bank.
func TestMixedHasNoProducts(t *testing.T) {
	net := drawMixed(t, mixed(1, 8, 0, 3, 5, reservoir.Clip))
	for _, products := range []Products{TF32x3, TF32x2} {
		if _, err := NewApproximate(net, h200, products); !errors.Is(err, ErrTF32) {
			t.Errorf("products %d: %v, want ErrTF32", products, err)
		}
	}
}

// TestMixedIsTooWide: a bank whose window exceeds shared memory is refused,
// with its size: here 128 inputs of 256 + 1 values each.
func TestMixedIsTooWide(t *testing.T) {
	net := drawMixed(t, mixed(200, 8, 0, 16, 256, reservoir.Cubic))
	small := Device{Multiprocessors: 1, SharedPerBlock: 99 << 10}
	if _, err := New(net, small); err != nil {
		t.Fatalf("as drawn: %v", err)
	}
	for r := range net.Members {
		for k := range net.Members[r].Inputs {
			net.Members[r].Inputs[k] = int32(16*r + k)
		}
	}
	if _, err := New(net, small); err == nil || !strings.Contains(err.Error(), "131584 bytes of shared memory, want at most 101376") {
		t.Errorf("%v, want the bytes", err)
	}
	if _, err := New(net, h200); err != nil {
		t.Errorf("on a card with more: %v", err)
	}
}

// TestMixedChunks: chunks are as long as a window of 8 KiB allows, but 16 samples if they fit.
func TestMixedChunks(t *testing.T) {
	for _, c := range []struct {
		spec reservoir.Spec
		taps uint32
	}{{mixed(1, 8, 8, 6, 64, reservoir.Cubic), 128}, {mixed(9, 16, 8, 6, 64, reservoir.Cubic), 64}, {mixed(33, 8, 0, 16, 256, reservoir.Cubic), 16}} {
		p, err := New(drawMixed(t, c.spec), h200)
		if err != nil {
			t.Fatal(err)
		}
		if p.bank.taps.chunk != c.taps || p.bank.recurrent.chunk != mixedChunk {
			t.Errorf("%d channels: chunks of %d and %d samples, want %d and %d", c.spec.Channels, p.bank.taps.chunk, p.bank.recurrent.chunk, c.taps, mixedChunk)
		}
	}
}

func drawMixed(t *testing.T, s reservoir.Spec) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// TestMixedInstructions counts the instructions of the compiled PTX, each of a
// warp: of a sample of one stream, and of a visit without its samples. docs/gpu.md
// uses the counts. A loop that grows by a twentieth fails.
func TestMixedInstructions(t *testing.T) {
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bank   string
		sample int // of all blocks
	}{{"standard", 2776}, {"small", 611}} {
		s, err := reservoir.Bank(c.bank, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := newEngine([]*ptx.Module{m}, drawMixed(t, s.ForLength(256)), 1, 1, h200)
		if err != nil {
			t.Fatal(err)
		}
		counts := func(samples int) map[string]int {
			clear(e.issued)
			if err := e.Advance(make([]float32, samples), []reservoir.Run{{To: int32(samples)}}, nil); err != nil {
				t.Fatal(err)
			}
			return maps.Clone(e.issued)
		}
		long, short := counts(96), counts(64)
		sample := 0
		for _, name := range slices.Sorted(maps.Keys(short)) {
			each := (long[name] - short[name]) / 32
			t.Logf("%s, %s: %d a sample, %d a visit", c.bank, name, each, short[name]-64*each)
			sample += each
		}
		if low, high := c.sample*19/20, c.sample*21/20; sample < low || sample > high {
			t.Errorf("%s: %d instructions a sample, docs/gpu.md has %d", c.bank, sample, c.sample)
		}
	}
}
