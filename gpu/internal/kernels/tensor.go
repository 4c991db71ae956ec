package kernels

import (
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Products selects the arithmetic of a Program.
type Products int

const (
	// Canonical is float32, bit-identical with every other engine.
	Canonical Products = iota
	// TF32x3 uses tensor cores: each product as three products of TF32 parts.
	// The last bits of states differ from canonical states, and more bits as a
	// sequence grows; a test measures the difference.
	TF32x3
	// TF32x2 is TF32x3 without the product that is zero if TF32 holds every
	// weight exactly (reservoir.TF32).
	TF32x2
)

// ErrTF32 reports a network that tensor cores cannot compute as requested.
var ErrTF32 = errors.New("not for tensor cores")

// NewApproximate is New with tensor cores. Rows of such a program are not
// canonical: a job that promises the same bits must not mix them with rows of
// other engines. Everything but the sums of the tanh arguments stays canonical.
func NewApproximate(net *reservoir.Network, device Device, products Products) (*Program, error) {
	p, err := New(net, device)
	if err != nil || products == Canonical {
		return p, err
	}
	switch {
	case products != TF32x3 && products != TF32x2:
		return nil, fmt.Errorf("kernels: products %d, want Canonical, TF32x3 or TF32x2", products)
	case p.bank != nil:
		return nil, fmt.Errorf("kernels: %w: the members of a mixed bank are too small for matrix products; use the canonical engine", ErrTF32)
	case p.shape.Flags&shapeRing != 0:
		return nil, fmt.Errorf("kernels: %w: a ring has no matrix product; use the canonical engine", ErrTF32)
	case products == TF32x2:
		if err := checkTF32(net); err != nil {
			return nil, err
		}
	}
	p.products, p.fits = products, nil
	return p, nil
}

// checkTF32 reports the first weight that TF32 cannot hold.
func checkTF32(net *reservoir.Network) error {
	for r, m := range net.Members {
		for _, w := range []struct {
			name string
			v    []float32
		}{{"recurrent", m.Recurrent}, {"input", m.Input}} {
			for i, x := range w.v {
				if math.Float32bits(x)&(1<<13-1) != 0 {
					return fmt.Errorf("kernels: %w with two products: member %d: %s[%d] = %v is no TF32 number: draw the network with precision %q, or take three products", ErrTF32, r, w.name, i, x, reservoir.TF32)
				}
			}
		}
	}
	return nil
}
