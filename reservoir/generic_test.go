package reservoir_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func TestGeneric(t *testing.T) {
	enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewGeneric(net, slots)
	})
}
