package exact

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Sums are the training data of a ridge classifier, without the samples: the number of samples
// in each class, the sum of each class's features, and the sum of all outer products. Their
// size does not depend on the number of samples.
//
// Sums are exact. Each number is an integer of 192 bits, in units of 2^-64 for sums of
// features and 2^-128 for sums of products, so nothing is rounded when samples are added. So
// neither order nor grouping matters, and removed samples leave no trace, bit for bit, for any
// number of changes.
//
// A feature below 2^-41 (5e-13) is rounded once, to a multiple of 2^-64 (5e-20); all other
// features are exact. Features must be below 2^16. Not safe for concurrent use.
type Sums struct {
	features int
	counts   []int
	sums     []uint64 // classes x features x 3
	outer    []uint64 // rows of the lower triangle, x 3
}

const (
	unit        = 64      // sums are multiples of 2^-unit
	mostSamples = 1 << 30 // products below 2^32 then have a sum of 190 bits; twice as many are an int of 32 bits
	largest     = 1 << 16
)

// SumsBytes returns the memory of the sums, in bytes.
func SumsBytes(features, classes int) int64 {
	f := int64(features)
	return 12*f*(f+1) + 24*f*int64(classes)
}

// NewSums returns the sums of no samples.
func NewSums(features, classes int) (*Sums, error) {
	if features < 1 || features > math.MaxInt32/4 || classes < 1 {
		return nil, fmt.Errorf("exact: sums of %d features and %d classes, want at least 1", features, classes)
	}
	return &Sums{
		features: features, counts: make([]int, classes),
		sums: make([]uint64, 3*classes*features), outer: make([]uint64, 3*(features*(features+1)/2)),
	}, nil
}

// Features and Classes return the numbers of features and classes.
func (s *Sums) Features() int { return s.features }
func (s *Sums) Classes() int  { return len(s.counts) }

// Counts returns the samples of each class.
func (s *Sums) Counts() []int { return slices.Clone(s.counts) }

// Samples returns the number of samples.
func (s *Sums) Samples() int {
	n := 0
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Add takes samples, row-major, and the class of each.
func (s *Sums) Add(features []float32, labels []int) error { return s.take(features, labels, 1) }

// Remove removes samples that were added with these classes.
func (s *Sums) Remove(features []float32, labels []int) error { return s.take(features, labels, -1) }

// together is the number of samples per step: a row of the triangle is read and written once
// for all samples of a step.
const together = 64

func (s *Sums) take(features []float32, labels []int, sign int) error {
	f := s.features
	if len(features) != len(labels)*f {
		return fmt.Errorf("exact: %d feature values for %d labels of %d features, want %d", len(features), len(labels), f, len(labels)*f)
	}
	for _, x := range features {
		if !(x < largest && x > -largest) {
			return fmt.Errorf("exact: a feature of %v: sums take features below %d", x, largest)
		}
	}
	if err := s.count(labels, sign); err != nil {
		return err
	}
	digits, shift := make([]int32, min(len(labels), together)*f), make([]uint8, min(len(labels), together)*f)
	for at := 0; at < len(labels); at += together {
		some := labels[at:min(len(labels), at+together)]
		for i, x := range features[at*f : (at+len(some))*f] {
			digits[i], shift[i] = split(x)
		}
		s.products(digits, shift, len(some), int64(sign))
		for i, l := range some {
			row := s.sums[3*l*f:]
			for j := range f {
				addAt(row[3*j:], fixedOf(int64(sign)*int64(digits[i*f+j]), uint(shift[i*f+j])))
			}
		}
	}
	return nil
}

// count counts samples, unless the count would be too small or too large.
func (s *Sums) count(labels []int, sign int) error {
	next := slices.Clone(s.counts)
	total := s.Samples() + sign*len(labels)
	for _, l := range labels {
		if l < 0 || l >= len(next) {
			return fmt.Errorf("exact: label %d, want 0 to %d", l, len(next)-1)
		}
		if next[l] += sign; next[l] < 0 {
			return fmt.Errorf("exact: more samples of class %d to remove than the %d that there are", l, s.counts[l])
		}
	}
	if total >= mostSamples {
		return fmt.Errorf("exact: sums of %d samples, want fewer than %d", total, mostSamples)
	}
	s.counts = next
	return nil
}

// products adds the outer products of n samples. Rows are taken in pairs of a long and a short
// row, so that every thread has equal work.
func (s *Sums) products(digits []int32, shift []uint8, n int, sign int64) {
	f := s.features
	row := func(i int) {
		acc := s.outer[3*(i*(i+1)/2):][:3*(i+1)]
		for k := range n {
			m, e := digits[k*f:][:i+1], shift[k*f:][:i+1]
			if m[i] != 0 {
				addProducts(acc, sign*int64(m[i]), uint(e[i]), m, e)
			}
		}
	}
	dense.Parallel((f+1)/2, 8, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			row(i)
			if last := f - 1 - i; last != i {
				row(last)
			}
		}
	})
}

// addProducts adds a number's products with many digits, all of at most 24 bits and shifts of
// at most 56: a product has 48 bits, and its shift is at most 112.
func addProducts(acc []uint64, number int64, at uint, digits []int32, shift []uint8) {
	shift = shift[:len(digits)]
	for j, d := range digits {
		p, by := number*int64(d), at+uint(shift[j])
		low, high := uint64(p)<<(by&63), uint64(p>>(64-by&63))
		a := (*[3]uint64)(acc[3*j:])
		var c uint64
		if by < 64 {
			a[0], c = bits.Add64(a[0], low, 0)
			a[1], c = bits.Add64(a[1], high, c)
			a[2] += uint64(p>>63) + c
		} else {
			a[1], c = bits.Add64(a[1], low, 0)
			a[2] += high + c
		}
	}
}

func addAt(at []uint64, w fixed) {
	sum := fixed{at[0], at[1], at[2]}.plus(w)
	at[0], at[1], at[2] = sum[0], sum[1], sum[2]
}

// split returns a feature as digits * 2^shift, in units of 2^-64.
func split(x float32) (digits int32, shift uint8) {
	b := math.Float32bits(x)
	e := int(b>>23&0xff) - 150 + unit
	if e < 0 { // below 2^-41, or zero
		return int32(math.RoundToEven(math.Ldexp(float64(x), unit))), 0
	}
	digits = int32(b&(1<<23-1) | 1<<23)
	if b>>31 != 0 {
		digits = -digits
	}
	return digits, uint8(e)
}

// Merge adds the samples of o, whose class k is class[k] here; negative: class k has no
// sample.
func (s *Sums) Merge(o *Sums, class []int) error { return s.combine(o, class, 1) }

// Subtract removes the samples of o.
func (s *Sums) Subtract(o *Sums, class []int) error { return s.combine(o, class, -1) }

func (s *Sums) combine(o *Sums, class []int, sign int) error {
	if s.features != o.features || len(class) != len(o.counts) {
		return fmt.Errorf("exact: sums of %d features, and of %d features of %d classes, of which %d are named", s.features, o.features, len(o.counts), len(class))
	}
	next := slices.Clone(s.counts)
	for k, l := range class {
		if l < 0 && o.counts[k] == 0 {
			continue
		}
		if l < 0 || l >= len(next) {
			return fmt.Errorf("exact: class %d of %d", l, len(next))
		}
		if next[l] += sign * o.counts[k]; next[l] < 0 {
			return fmt.Errorf("exact: %d samples of class %d to remove of the %d that there are", o.counts[k], l, s.counts[l])
		}
	}
	if s.Samples()+o.Samples() >= mostSamples {
		return fmt.Errorf("exact: sums of %d and %d samples, want fewer than %d", s.Samples(), o.Samples(), mostSamples)
	}
	s.counts = next
	for k, l := range class {
		if l < 0 {
			continue
		}
		combineAll(s.sums[3*l*s.features:], o.sums[3*k*s.features:][:3*s.features], sign)
	}
	dense.Parallel(len(o.outer)/3, 1<<12, func(lo, hi int) { combineAll(s.outer[3*lo:], o.outer[3*lo:3*hi], sign) })
	return nil
}

func combineAll(dst, src []uint64, sign int) {
	for i := 0; i < len(src); i += 3 {
		w := fixed{src[i], src[i+1], src[i+2]}
		if sign < 0 {
			w = fixed{}.minus(w)
		}
		addAt(dst[i:], w)
	}
}
