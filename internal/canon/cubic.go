package canon

// AddCubic returns h plus the cubic c - 4/27 c^3 of z limited to [-1.5, 1.5]:
// in float32, with c the limited z, fma(c * CubicFactor, c * c, h + c), where
// both products and the sum are rounded by themselves. The cubic goes from -1
// to 1, its slope from 1 at 0 to 0 at both limits, as tanh's does, for six
// operations and no table.
func AddCubic(h, z float32) float32 {
	c := Limit(z, CubicLimit)
	return FMA(float32(c*CubicFactor), float32(c*c), float32(h+c))
}

// AddClip returns h plus z limited to [-1, 1], rounded once.
func AddClip(h, z float32) float32 { return float32(h + Limit(z, 1)) }

// AddTanh returns h plus Tanh(z), rounded once.
func AddTanh(h, z float32) float32 { return float32(h + Tanh(z)) }

const (
	// CubicLimit is where the cubic has become flat.
	CubicLimit float32 = 1.5
	// CubicFactor is -4/27, rounded to float32.
	CubicFactor float32 = -4. / 27
)

// Limit returns z, limited to [-most, most].
func Limit(z, most float32) float32 {
	switch {
	case z > most:
		return most
	case z < -most:
		return -most
	}
	return z
}
