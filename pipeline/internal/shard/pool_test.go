package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
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
		if _, err := p.take(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.take(); err == nil || !strings.Contains(err.Error(), "card 2") {
		t.Errorf("a pool grew from one arithmetic into another: %v", err)
	}
}
