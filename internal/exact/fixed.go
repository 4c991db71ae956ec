package exact

import (
	"math"
	"math/bits"
)

// fixed is an integer of 192 bits in two's complement, the lowest bits first.
type fixed [3]uint64

func (a fixed) plus(b fixed) (s fixed) {
	var c uint64
	s[0], c = bits.Add64(a[0], b[0], 0)
	s[1], c = bits.Add64(a[1], b[1], c)
	s[2], _ = bits.Add64(a[2], b[2], c)
	return s
}

func (a fixed) minus(b fixed) (d fixed) {
	var c uint64
	d[0], c = bits.Sub64(a[0], b[0], 0)
	d[1], c = bits.Sub64(a[1], b[1], c)
	d[2], _ = bits.Sub64(a[2], b[2], c)
	return d
}

// times returns the lowest 192 bits of a product, also of the signed product.
func (a fixed) times(b fixed) (p fixed) {
	var c, d uint64
	h00, l00 := bits.Mul64(a[0], b[0])
	h01, l01 := bits.Mul64(a[0], b[1])
	h10, l10 := bits.Mul64(a[1], b[0])
	p[0] = l00
	p[1], c = bits.Add64(h00, l01, 0)
	p[1], d = bits.Add64(p[1], l10, 0)
	p[2] = h01 + h10 + a[0]*b[2] + a[1]*b[1] + a[2]*b[0] + c + d
	return p
}

// fixedOf returns m * 2^shift, within 192 bits; shift is at most 64.
func fixedOf(m int64, shift uint) fixed {
	sign := uint64(m >> 63)
	return fixed{uint64(m) << shift, uint64(m >> (64 - shift)), sign}
}

// float returns a * 2^scale, rounded once.
func (a fixed) float(scale int) float64 {
	negative := a[2]>>63 != 0
	if negative {
		a = fixed{}.minus(a)
	}
	top := a[0]
	if n := a.len() - 64; n > 0 { // keep 64 bits; the lowest bit stands for all removed bits
		word, bit := n/64, n%64
		top = a[word] >> bit
		lost := a[word] & (1<<bit - 1)
		if bit > 0 {
			top |= a[word+1] << (64 - bit)
		}
		for _, w := range a[:word] {
			lost |= w
		}
		if lost != 0 {
			top |= 1
		}
		scale += n
	}
	x := math.Ldexp(float64(top), scale)
	if negative {
		return -x
	}
	return x
}

// len returns the number of bits of a number that is not negative.
func (a fixed) len() int {
	for i := 2; i > 0; i-- {
		if a[i] != 0 {
			return 64*i + bits.Len64(a[i])
		}
	}
	return bits.Len64(a[0])
}
