package gpu

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Products selects the arithmetic of matrix products. The zero value is Canonical.
type Products int

const (
	// Canonical is float32, the same bits as every other engine.
	Canonical Products = Products(kernels.Canonical)
	// TF32x3 uses tensor cores, three TF32 products for a float32 product.
	TF32x3 Products = Products(kernels.TF32x3)
	// TF32x2 uses tensor cores, two TF32 products; only for networks drawn with precision
	// reservoir.TF32.
	TF32x2 Products = Products(kernels.TF32x2)
)

var productNames = map[Products]string{TF32x3: "3xtf32", TF32x2: "2xtf32"}

// Name implements Engine: gpu, gpu-3xtf32 or gpu-2xtf32.
func (e *Engine) Name() string {
	if e.products == Canonical {
		return "gpu"
	}
	return "gpu-" + productNames[e.products]
}

// Arithmetic implements reservoir.Engine. The rounding of sums in a tensor core
// is undocumented and may change with the compute capability, which therefore
// belongs to the name: 3xtf32-sm90.
func (e *Engine) Arithmetic() string {
	if e.products == Canonical {
		return reservoir.Canonical
	}
	dev := e.ctx.Device()
	return fmt.Sprintf("%s-sm%d%d", productNames[e.products], dev.Major, dev.Minor)
}
