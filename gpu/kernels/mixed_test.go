package kernels

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A network that no kernel knows is refused, whatever the products.
func TestMixedIsRefused(t *testing.T) {
	s, err := reservoir.Bank("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	net, err := reservoir.Draw(s.ForLength(10))
	if err != nil {
		t.Fatal(err)
	}
	for _, products := range []Products{Canonical, TF32x3, TF32x2} {
		if _, err := NewApproximate(net, h200, products); err == nil || !strings.Contains(err.Error(), "no GPU kernel knows it") {
			t.Errorf("products %d: %v, want the network refused", products, err)
		}
	}
}
