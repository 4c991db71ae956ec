package reservoir_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/enginetest"
)

func TestGeneric(t *testing.T) {
	enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewGeneric(net, slots)
	})
}
