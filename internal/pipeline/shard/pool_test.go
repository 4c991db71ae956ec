package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// A pool does not grow into another arithmetic.
func TestArithmeticGrows(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	opened := 0
	p, err := newPool(func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		opened++
		return pipelinetest.InArithmetic(fmt.Sprintf("card %d", opened))(net, slots)
	}, m.Network, m.Readouts[0], 1000)
	if err != nil {
		t.Fatal(err)
	}
	for range firstSlots {
		if _, err := p.takeSlot(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.takeSlot(); err == nil || !strings.Contains(err.Error(), "card 2") {
		t.Errorf("a pool grew from one arithmetic into another: %v", err)
	}
}

// A large pool grows by no more than a quarter, and keeps every state.
func TestLargePoolGrows(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	const most = 3000
	p, err := newPool(func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}, m.Network, m.Readouts[0], most)
	if err != nil {
		t.Fatal(err)
	}
	state := make([]uint32, engine.LayoutOf(m.Network.Spec).Words)
	for i := range most {
		slot, err := p.takeSlot()
		if err != nil {
			t.Fatal(err)
		}
		if slots := p.engine.Slots(); slots > max(2*manySlots, i+i/4+1) {
			t.Fatalf("%d slots for %d states", slots, i+1)
		}
		state[0] = uint32(i) // samples since the reset
		if err := p.engine.WriteState(slot, state); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.takeSlot(); !errors.Is(err, errSlots) {
		t.Errorf("slot %d of %d: %v", most+1, most, err)
	}
	for i := range most {
		if err := p.engine.ReadState(int32(i), state); err != nil || state[0] != uint32(i) {
			t.Fatalf("state %d is that of %d: %v", i, state[0], err)
		}
	}
}
