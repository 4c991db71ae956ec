package codec

import (
	"encoding/binary"
	"math"
	"slices"
)

// values is one column (or one list's elements) of numbers in a record batch.
type values struct {
	num   number
	valid []byte // nil: no nulls
	data  []byte // little endian, not aligned: payloads begin anywhere
}

// tileRows is how many rows are gathered before the next column's turn, so
// that the rows being filled stay in the first-level cache.
const tileRows = 128

// nullBits is the NaN that marks a null until the policy is applied, so that an
// error can distinguish a null from a NaN.
const nullBits = 0x7fc6e756

// Null returns the NaN that marks a null in Batch.X until Schema.ApplyNonFinite.
func Null() float32 { return math.Float32frombits(nullBits) }

// gather appends the samples of one record batch to b.X and applies the policy
// to non-finite samples.
func (d *Decoder) gather(p *plan, rb *recordBatch, b *Batch) error {
	width := len(d.schema.Channels)
	if err := d.readValues(p, rb); err != nil { // before growing: checks rows against bytes
		return err
	}
	base := len(b.X)
	b.X = slices.Grow(b.X, rb.rows*width)[:base+rb.rows*width]
	x := b.X[base:]
	finite := true
	if p.list != nil {
		finite = d.gatherList(p.list, rb, x)
	} else {
		for from := 0; from < rb.rows; from += tileRows {
			to := min(from+tileRows, rb.rows)
			for c := range d.views {
				finite = d.views[c].into(x[from*width+c:], width, from, to) && finite
			}
		}
	}
	if finite {
		return nil
	}
	return d.schema.ApplyNonFinite(b, base)
}

// readValues points d.views at the sample columns.
func (d *Decoder) readValues(p *plan, rb *recordBatch) (err error) {
	if p.list != nil {
		return d.readList(p.list, rb)
	}
	for i := range p.channels {
		c, v := &p.channels[i], &d.views[i]
		v.num = c.typ.num
		if v.valid, err = rb.bitmap(c, 0, 0, 1); err != nil {
			return err
		}
		if v.data, err = rb.buffer(c, 1, v.num.size(rb.rows)); err != nil {
			return err
		}
	}
	return nil
}

// readList points d.views[0] at the elements of x. The list's own bitmap is
// read too, by gatherList.
func (d *Decoder) readList(c *column, rb *recordBatch) (err error) {
	v := &d.views[0]
	v.num = c.typ.num
	if d.listValid, err = rb.bitmap(c, 0, 0, 1); err != nil {
		return err
	}
	if v.valid, err = rb.bitmap(c, 1, 1, c.typ.size); err != nil {
		return err
	}
	v.data, err = rb.buffer(c, 2, v.num.size(rb.rows*c.typ.size))
	return err
}

// gatherList copies the elements of x, which are row-major already.
func (d *Decoder) gatherList(c *column, rb *recordBatch, x []float32) (finite bool) {
	finite = d.views[0].into(x, 1, 0, len(x))
	if d.listValid == nil {
		return finite
	}
	for r := range rb.rows {
		if !bit(d.listValid, r) {
			finite = false
			for i := range c.typ.size {
				x[r*c.typ.size+i] = math.Float32frombits(nullBits)
			}
		}
	}
	return finite
}

// into writes values [from, to) to x[0], x[stride], ... as float32, nulls as
// nullBits, and reports whether all values are finite.
func (v *values) into(x []float32, stride, from, to int) (finite bool) {
	switch v.num {
	case float32s:
		finite = gatherFloat32(x, stride, v.data[from*4:to*4])
	case bools:
		finite = true
		for i := from; i < to; i++ {
			x[(i-from)*stride] = 0
			if bit(v.data, i) {
				x[(i-from)*stride] = 1
			}
		}
	default:
		finite = cast(x, stride, v.num, v.data[from*v.num.width():to*v.num.width()])
	}
	if v.valid == nil {
		return finite
	}
	for i := from; i < to; i++ {
		if !bit(v.valid, i) {
			x[(i-from)*stride] = math.Float32frombits(nullBits)
			finite = false
		}
	}
	return finite
}

// gatherFloat32 writes the float32 values of data to every stride-th place of x.
//
// Adding one to the exponent of a number that has all exponent bits set carries
// into the (cleared) sign bit: or-ing the sums finds NaN and infinities without
// a branch per value.
func gatherFloat32(x []float32, stride int, data []byte) (finite bool) {
	if stride == 1 {
		return copyFloat32(x, data)
	}
	const magnitude, one = 0x7fffffff, 0x00800000
	var carry uint32
	for i := 0; len(data) >= 4; i += stride {
		bits := binary.LittleEndian.Uint32(data)
		data = data[4:]
		carry |= bits&magnitude + one
		x[i] = math.Float32frombits(bits)
	}
	return carry>>31 == 0
}

// copyFloat32 is gatherFloat32 without gaps, two values at a time: neither sum
// can carry into the other value.
func copyFloat32(x []float32, data []byte) (finite bool) {
	const magnitude, one = 0x7fffffff_7fffffff, 0x00800000_00800000
	var carry uint64
	for len(data) >= 8 && len(x) >= 2 {
		bits := binary.LittleEndian.Uint64(data)
		carry |= bits&magnitude + one
		x[0] = math.Float32frombits(uint32(bits))
		x[1] = math.Float32frombits(uint32(bits >> 32))
		data, x = data[8:], x[2:]
	}
	if len(data) >= 4 {
		bits := binary.LittleEndian.Uint32(data)
		carry |= uint64(bits)&magnitude + one
		x[0] = math.Float32frombits(bits)
	}
	return carry&0x80000000_80000000 == 0
}

// cast is gatherFloat32 for the other numeric types: conversion to float32
// rounds to nearest, and a float64 out of range becomes infinite.
func cast(x []float32, stride int, num number, data []byte) (finite bool) {
	finite = true
	w := num.width()
	for i := 0; len(data) >= w; i += stride {
		f := castOne(num, data)
		data = data[w:]
		finite = finite && isFinite(f)
		x[i] = f
	}
	return finite
}

func castOne(num number, b []byte) float32 {
	le := binary.LittleEndian
	switch num {
	case int8s:
		return float32(int8(b[0]))
	case uint8s:
		return float32(b[0])
	case int16s:
		return float32(int16(le.Uint16(b)))
	case uint16s:
		return float32(le.Uint16(b))
	case int32s:
		return float32(int32(le.Uint32(b)))
	case uint32s:
		return float32(le.Uint32(b))
	case int64s:
		return float32(int64(le.Uint64(b)))
	case uint64s:
		return float32(le.Uint64(b))
	case float16s:
		return fromHalf(le.Uint16(b))
	case float64s:
		return float32(math.Float64frombits(le.Uint64(b)))
	}
	return math.Float32frombits(le.Uint32(b))
}

// fromHalf converts a number of half precision exactly, subnormals too.
func fromHalf(bits uint16) float32 {
	const halfBias, bias = 15, 127
	sign, exponent, fraction := uint32(bits)>>15<<31, uint32(bits)>>10&0x1f, uint32(bits)&0x3ff
	switch exponent {
	case 0: // a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 0x1f: // infinite, or NaN
		exponent = 0xff
	default:
		exponent += bias - halfBias
	}
	return math.Float32frombits(sign | exponent<<23 | fraction<<13)
}

func isFinite(f float32) bool { return math.Float32bits(f)&0x7f800000 != 0x7f800000 }

// ApplyNonFinite applies the schema's policy to the non-finite values of b.X
// from index from on, and lists them in b.Missing. A decoder of another format
// than Arrow calls ApplyNonFinite at its end.
func (s Schema) ApplyNonFinite(b *Batch, from int) error {
	for i := from; i < len(b.X); i++ {
		f := b.X[i]
		if isFinite(f) {
			continue
		}
		switch s.NonFinite {
		case Zero:
			b.X[i] = 0
		case Hold:
			b.X[i] = float32(math.NaN())
		default:
			return s.nonFinite(i, f)
		}
		b.Missing = append(b.Missing, int32(i))
	}
	return nil
}
