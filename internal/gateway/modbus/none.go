package modbus

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sunspec are the bits by which SunSpec marks an absent value. Many other devices use the
// same bits. Floats have NaN, which is missing anyway.
var sunspec = map[string]uint64{"int16": 0x8000, "uint16": 0xffff, "int32": 0x80000000, "uint32": 0xffffffff}

// parseNone reads the values that mean that there is none: hexadecimal ones are the bits,
// the others are as the register's type has them, before scale and offset.
func (r *register) parseNone(list string) (all []uint64, err error) {
	if r.table.bits() {
		return nil, fmt.Errorf("without %s: %s have values always", list, r.table.many)
	}
	if list == "sunspec" {
		if bits, is := sunspec[r.kind]; is {
			all = append(all, bits)
		}
		return all, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		bits, err := r.parseBits(text)
		if err != nil {
			return nil, fmt.Errorf("without %s: no value of %s", text, r.kind)
		}
		all = append(all, bits)
	}
	return all, nil
}

func (r *register) parseBits(text string) (uint64, error) {
	size := 16 * r.count
	if hex, is := strings.CutPrefix(text, "0x"); is {
		return strconv.ParseUint(hex, 16, size)
	}
	switch r.kind {
	case "float32":
		x, err := strconv.ParseFloat(text, 32)
		return uint64(math.Float32bits(float32(x))), err
	case "float64":
		x, err := strconv.ParseFloat(text, 64)
		return math.Float64bits(x), err
	case "uint16", "uint32":
		return strconv.ParseUint(text, 10, size)
	}
	n, err := strconv.ParseInt(text, 10, size)
	return uint64(n) & (1<<size - 1), err
}

// suspect reports, once, whether a register that names no such values has one that many
// devices use.
func (r *register) suspect(q *request, answer []byte) bool {
	if r.warned || r.none != nil || r.table.bits() {
		return false
	}
	bits, is := sunspec[r.kind]
	r.warned = is && r.raw(q, answer) == bits
	return r.warned
}
