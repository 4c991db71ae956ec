package quality

import "math"

// Numbers describes the errors of predicted numbers, in their own unit.
type Numbers struct {
	Samples int     `json:"samples"`
	RMSE    float64 `json:"rmse"` // root of the mean squared error
	MAE     float64 `json:"mae"`  // mean magnitude of the error
	Bias    float64 `json:"bias"` // mean of predicted less true numbers
	// R2 is 1 less the sum of squared errors over the sum for always predicting the mean of
	// these samples: 1 is perfect, 0 as good as the mean, below worse. nil: all are equal.
	R2       *float64 `json:"r2"`
	Coverage float64  `json:"coverage"` // share of the numbers in their interval
	Below    float64  `json:"below"`    // share of the numbers below their interval
	Above    float64  `json:"above"`    // share above
	Width    float64  `json:"mean_width"`
	// PHM08 is the score of the data challenge of PHM 2008, for remaining life in cycles; nil:
	// too large for a number. With d = predicted less true number, it is the sum of
	// exp(d/10) - 1 of late predictions (d > 0) and exp(-d/13) - 1 of early ones (Saxena,
	// Goebel, Simon and Eklund, "Damage propagation modeling for aircraft engine
	// run-to-failure simulation", 2008).
	PHM08 *float64 `json:"phm08"`
}

// OfNumbers measures n predictions, at least one. at returns each number, the predicted value,
// and the interval from low to high.
func OfNumbers(n int, at func(i int) (number, value, low, high float64)) *Numbers {
	r := &Numbers{Samples: n}
	count := float64(n)
	mean, squares, spread, score := 0.0, 0.0, 0.0, 0.0
	for i := range n {
		number, value, low, high := at(i)
		e := value - number
		mean += number / count
		squares += e * e
		score += math.Expm1(max(e/10, -e/13))
		r.MAE += math.Abs(e) / count
		r.Bias += e / count
		r.Width += (high - low) / count
		switch {
		case number < low:
			r.Below += 1 / count
		case number > high:
			r.Above += 1 / count
		}
	}
	for i := range n {
		number, _, _, _ := at(i)
		spread += (number - mean) * (number - mean)
	}
	r.RMSE, r.Coverage = math.Sqrt(squares/count), 1-r.Below-r.Above
	if !math.IsInf(score, 1) {
		r.PHM08 = &score
	}
	if spread > 0 {
		r2 := 1 - squares/spread
		r.R2 = &r2
	}
	return r
}
