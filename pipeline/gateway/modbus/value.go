package modbus

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// value reads a register from the answer to a request that holds it.
func (r *register) value(q *request, answer []byte) float32 {
	from := r.at - q.at
	if r.table.bits() {
		return r.scaled(float64(answer[from/8] >> (from % 8) & 1))
	}
	var v uint64
	for i := range r.count {
		k := i
		if r.order == "cdab" || r.order == "dcba" {
			k = r.count - 1 - i
		}
		w := binary.BigEndian.Uint16(answer[2*(from+k):])
		if r.order == "badc" || r.order == "dcba" {
			w = bits.ReverseBytes16(w)
		}
		v = v<<16 | uint64(w)
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
	return r.scaled(float64(v)) // without a sign
}

// scaled applies scale and offset, each rounded to float64 (a compiler must not fuse
// them), and rounds the result once, as the scales of input.channels do.
func (r *register) scaled(f float64) float32 {
	if !r.linear {
		return float32(f)
	}
	product := float64(f * r.scale)
	return float32(float64(product + r.offset))
}
