package canon

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA rounds a*b + c once, with integers of any length.
func exactFMA(a, b, c float32) float32 {
	const prec = 2000 // exact for every float32 product and sum
	x := new(big.Float).SetPrec(prec).SetFloat64(float64(a))
	x.Mul(x, new(big.Float).SetPrec(prec).SetFloat64(float64(b)))
	x.Add(x, new(big.Float).SetPrec(prec).SetFloat64(float64(c)))
	f, _ := x.Float32()
	return f
}

func TestFMARoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() float32 {
		for {
			if f := math.Float32frombits(rng.Uint32()); f-f == 0 {
				return f
			}
		}
	}
	near := func(x float32, width int) float32 { // exponents close to x's
		e := int(math.Float32bits(x)>>23&0xff) + rng.IntN(2*width+1) - width
		return math.Float32frombits(rng.Uint32()&0x807fffff | uint32(min(max(e, 0), 254))<<23)
	}
	check := func(a, b, c float32) {
		t.Helper()
		want, got := exactFMA(a, b, c), FMA(a, b, c)
		if want == 0 && got == 0 {
			return // the sign of zero is checked in TestFMAZeros
		}
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	for range 300_000 {
		a, b := random(), random()
		check(a, b, random())
		check(a, b, near(float32(float64(a)*float64(b)), 30))
		// Few mantissa bits make sums land between two float32.
		a, b = math.Float32frombits(math.Float32bits(a)&^0xfff), math.Float32frombits(math.Float32bits(b)&^0xfff)
		check(a, b, near(float32(float64(a)*float64(b)), 60))
	}
	// The planted case: (2^-12 + 2^-35)(2^-12 - 2^-35) + 1 + 2^-23 lies 2^-70
	// below the middle of two float32; in float64 it lands on the middle and
	// a second rounding would go up.
	const u = 1.0 / (1 << 23)
	a, b, c := float32(1+u)/(1<<12), float32(1-u)/(1<<12), float32(1+u)
	check(a, b, c)
	if float32(float64(a)*float64(b)+float64(c)) == FMA(a, b, c) {
		t.Error("the planted case does not tell one rounding from two")
	}
}

func TestFMAZeros(t *testing.T) {
	zero, neg := float32(0), float32(math.Copysign(0, -1))
	for _, c := range []struct{ a, b, c, want float32 }{
		{zero, 1, neg, zero}, {neg, 1, neg, neg}, {neg, 1, zero, zero}, {1, 1, -1, zero}, {-1, 1, 1, zero},
	} {
		if got := FMA(c.a, c.b, c.c); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("FMA(%v, %v, %v) has bits %x, want %x", c.a, c.b, c.c, math.Float32bits(got), math.Float32bits(c.want))
		}
	}
	inf := float32(math.Inf(1))
	if got := FMA(inf, 1, -inf); got == got {
		t.Errorf("inf - inf = %v, want NaN", got)
	}
	if got := FMA(math.MaxFloat32, 2, 0); got != inf {
		t.Errorf("overflow gives %v, want +Inf", got)
	}
}

// TestTanhError walks every exponent, densely where tanh bends.
func TestTanhError(t *testing.T) {
	worst, at := 0.0, float32(0)
	top := math.Float32bits(Saturation) + 1<<20
	for u := uint32(1); u < top; {
		x := math.Float32frombits(u)
		got, want := float64(Tanh(x)), math.Tanh(float64(x))
		if e := math.Abs(got-want) / want; x > 1e-38 && e > worst {
			worst, at = e, x
		}
		if got > 1 {
			t.Fatalf("Tanh(%g) = %g, above 1", x, got)
		}
		if neg := Tanh(-x); neg != -float32(got) {
			t.Fatalf("Tanh(%g) = %g, Tanh(%g) = %g: not odd", x, got, -x, neg)
		}
		if x > 1e-3 {
			u += 61 // a prime: about 2 million arguments here
		} else {
			u += 99991 // 84 an exponent
		}
	}
	if worst > TanhError {
		t.Errorf("largest relative error %.4g at %g, stated %.4g", worst, at, TanhError)
	}
	if worst < TanhError/2 {
		t.Errorf("largest relative error met is %.4g: state that, not %.4g", worst, TanhError)
	}
	t.Logf("largest relative error %.4g at %g", worst, at)
}

func TestTanhSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 0}, {float32(math.Copysign(0, -1)), float32(math.Copysign(0, -1))},
		{math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat32}, {1e-38, 1e-38}, {-1e-20, -1e-20}, {1e-5, 1e-5},
		{Saturation, 1}, {20, 1}, {math.MaxFloat32, 1}, {inf, 1}, {-inf, -1}, {-Saturation, -1},
	} {
		if got := Tanh(c.x); math.Float32bits(got) != math.Float32bits(c.want) {
			t.Errorf("Tanh(%g) = %x, want %x", c.x, got, c.want)
		}
	}
	if nan := Tanh(float32(math.NaN())); nan == nan {
		t.Errorf("Tanh(NaN) = %v", nan)
	}
}

// TestTanhPinned pins the arithmetic: these bits are in every saved state.
func TestTanhPinned(t *testing.T) {
	sum, x := uint32(0), uint32(0)
	for range 200_000 {
		x = x*1664525 + 1013904223
		sum = sum*31 + math.Float32bits(Tanh(math.Float32frombits(x&0x807fffff|(110+x>>9%22)<<23)))
	}
	if want := uint32(0x3ca5fe10); sum != want {
		t.Errorf("digest %#x, want %#x: the canonical tanh changed, and with it every state of every model", sum, want)
	}
}
