package novelty

import "math"

// Means measure the distance of running means of the samples from those of the training part:
// the squared length of Axes (statistic - Center), in the unit of Detector.Score.
type Means struct {
	Center []float32 // of each statistic (reservoir.Front.Statistics)
	Axes   []float32 // directions x statistics, row-major
}

// Statistics returns the number of statistics that the detector reads; 0: none.
func (d *Detector) Statistics() int {
	if d == nil || d.Means == nil {
		return 0
	}
	return len(d.Means.Center)
}

// AddMeans returns a result of Score plus the squared length of the means. Without statistics
// it returns the score.
//
// Canonical, and the same on every platform: each product Axes * (statistic - Center) in
// float32, one rounding for each operation, summed in ascending order; the squares are added
// to the score in float64, in the order of the directions; the sum is rounded to float32, at
// most math.MaxFloat32.
func (d *Detector) AddMeans(score float32, statistics []float32) float32 {
	n := d.Statistics()
	if n == 0 || len(statistics) < n {
		return score
	}
	statistics, length := statistics[:n], float64(score)
	axes := d.Means.Axes
	for ; len(axes) >= 4*n; axes = axes[4*n:] { // four independent sums
		for _, sum := range d.Means.four(axes[:4*n], statistics) {
			length += float64(float64(sum) * float64(sum)) // the square is exact
		}
	}
	for ; len(axes) > 0; axes = axes[n:] {
		var sum float32
		for j, v := range axes[:n] {
			sum += float32(v * (statistics[j] - d.Means.Center[j]))
		}
		length += float64(float64(sum) * float64(sum))
	}
	if !(float32(length) <= math.MaxFloat32) {
		return math.MaxFloat32
	}
	return float32(length)
}

// four returns the products of four directions. Products are converted, so that no platform fuses them with a sum.
func (m *Means) four(axes, statistics []float32) [4]float32 {
	n := len(statistics)
	center, a, b, c, d := m.Center[:n], axes[:n], axes[n:][:n], axes[2*n:][:n], axes[3*n:][:n]
	var s0, s1, s2, s3 float32
	for j, s := range statistics {
		z := s - center[j]
		s0 += float32(a[j] * z)
		s1 += float32(b[j] * z)
		s2 += float32(c[j] * z)
		s3 += float32(d[j] * z)
	}
	return [4]float32{s0, s1, s2, s3}
}

// checkMeans reports errors of shape to bad.
func (m *Means) checkMeans(bad func(format string, args ...any)) {
	if m == nil {
		return
	}
	if d := len(m.Center); d == 0 || len(m.Axes) == 0 || len(m.Axes)%d != 0 || len(m.Axes)/d > maxDimensions {
		bad("running means: %d centers and %d values of directions, want whole directions, 1 to %d", d, len(m.Axes), maxDimensions)
	}
}
