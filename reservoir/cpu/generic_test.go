package cpu_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func newGeneric(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
}

func TestGeneric(t *testing.T) { enginetest.Run(t, newGeneric) }

func TestGenericMixed(t *testing.T) { enginetest.Mixed(t, newGeneric) }
