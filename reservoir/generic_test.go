package reservoir_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func newGeneric(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return reservoir.NewGeneric(net, slots)
}

func TestGeneric(t *testing.T) { enginetest.Run(t, newGeneric) }

func TestGenericMixed(t *testing.T) { enginetest.Mixed(t, newGeneric) }
