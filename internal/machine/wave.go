package machine

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// The simulated machine must have the same bits on all platforms. The standard library's
// Sin and Exp do not promise equal bits (see canon.ExpNegative). So the functions here
// are polynomials of math.FMA, and callers prevent the fusion of a product by an explicit
// float64 conversion or request the fused form.

// sine is sin(2 pi turn), to about 1e-15 for |turn| below 1e3.
func sine(turn float64) float64 {
	turn -= math.Floor(turn + 0.5)
	switch { // fold to the quarter turns around 0
	case turn > 0.25:
		turn = 0.5 - turn
	case turn < -0.25:
		turn = -0.5 - turn
	}
	x := float64(2 * math.Pi * turn)
	return float64(x * canon.Taylor(-float64(x*x), sineTerms))
}

// sineTerms k: 1/(2k+1)! divided by the previous term.
var sineTerms = []float64{2 * 3, 4 * 5, 6 * 7, 8 * 9, 10 * 11, 12 * 13, 14 * 15, 16 * 17, 18 * 19, 20 * 21}
