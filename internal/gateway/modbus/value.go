package modbus

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// value reads a register from the answer to a request. A value that marks absence is missing.
func (r *register) value(q *request, answer []byte) float32 {
	if r.table.isBits() {
		offset := r.address - q.address
		return r.scaled(float64(answer[offset/8] >> (offset % 8) & 1))
	}
	v := r.rawValue(q, answer)
	if slices.Contains(r.absent, v) {
		return float32(math.NaN())
	}
	switch r.kind {
	case "int16":
		return r.scaled(float64(int16(v)))
	case "int32":
		return r.scaled(float64(int32(v)))
	case "float32":
		return r.scaled(float64(math.Float32frombits(uint32(v))))
	case "float64":
		return r.scaled(math.Float64frombits(v))
	}
	return r.scaled(float64(v)) // unsigned
}

// rawValue returns the bits of a register's value.
func (r *register) rawValue(q *request, answer []byte) (v uint64) {
	offset := r.address - q.address
	for i := range r.count {
		k := i
		if r.order == "cdab" || r.order == "dcba" {
			k = r.count - 1 - i
		}
		w := binary.BigEndian.Uint16(answer[2*(offset+k):])
		if r.order == "badc" || r.order == "dcba" {
			w = bits.ReverseBytes16(w)
		}
		v = v<<16 | uint64(w)
	}
	return v
}

// scaled applies scale and offset, each rounded to float64 (a compiler must not fuse them), and
// rounds the result once, as the scales of input.channels do.
func (r *register) scaled(f float64) float32 {
	if !r.linear {
		return float32(f)
	}
	product := float64(f * r.scale)
	return float32(float64(product + r.offset))
}
