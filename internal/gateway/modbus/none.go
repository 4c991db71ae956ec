package modbus

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sunspec are the bits of an absent value according to SunSpec. Many other devices use the same
// bits. An absent float is NaN, so missing anyway.
var sunspec = map[string]uint64{"int16": 0x8000, "uint16": 0xffff, "int32": 0x80000000, "uint32": 0xffffffff}

// parseNone parses the raw values that mark an absent value: either the bits in hexadecimal, or
// numbers of the register's type before scale and offset.
func (r *register) parseNone(list string) (values []uint64, err error) {
	if r.table.isBits() {
		return nil, fmt.Errorf("without %s: %s always have a value", list, r.table.many)
	}
	if list == "sunspec" {
		if bits, found := sunspec[r.kind]; found {
			values = append(values, bits)
		}
		return values, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		bits, err := r.parseBits(text)
		if err != nil {
			return nil, fmt.Errorf("without %s: no value of %s", text, r.kind)
		}
		values = append(values, bits)
	}
	return values, nil
}

func (r *register) parseBits(text string) (uint64, error) {
	size := 16 * r.count
	if hex, found := strings.CutPrefix(text, "0x"); found {
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

// isSuspect reports, once per register without marked values, whether the value marks an absent
// value on many devices.
func (r *register) isSuspect(q *request, answer []byte) bool {
	if r.warned || r.absent != nil || r.table.isBits() {
		return false
	}
	bits, found := sunspec[r.kind]
	r.warned = found && r.rawValue(q, answer) == bits
	return r.warned
}
