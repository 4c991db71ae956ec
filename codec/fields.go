package codec

import (
	"encoding/binary"
	"math"
	"slices"
)

// nsPerUnit is how many nanoseconds a timestamp's unit has, by the unit's code.
var nsPerUnit = [4]int64{1e9, 1e6, 1e3, 1}

// appendTimes appends the column ts of one record batch to b.Times, in ns.
func appendTimes(rb *recordBatch, c *column, b *Batch) error {
	valid, err := rb.bitmap(c, 0, 0, 1)
	if err != nil {
		return err
	}
	data, err := rb.buffer(c, 1, rb.rows*8)
	if err != nil {
		return err
	}
	ns := nsPerUnit[c.typ.unit]
	most := math.MaxInt64 / ns
	base := len(b.Times)
	b.Times = slices.Grow(b.Times, rb.rows)[:base+rb.rows]
	for i := range rb.rows {
		t := int64(binary.LittleEndian.Uint64(data[8*i:]))
		switch {
		case valid != nil && !bit(valid, i):
			t = NoTime
		case ns == 1:
		case t > most || t < -most:
			return malformed("row %d, field %q: time %d does not fit nanoseconds since 1970", b.Rows+i, c.name, t)
		default:
			t *= ns
		}
		b.Times[base+i] = t
	}
	return nil
}

// appendEnds appends the column end of one record batch to b.Ends. A null ends
// no sequence.
func appendEnds(rb *recordBatch, c *column, b *Batch) error {
	valid, err := rb.bitmap(c, 0, 0, 1)
	if err != nil {
		return err
	}
	data, err := rb.buffer(c, 1, (rb.rows+7)/8)
	if err != nil {
		return err
	}
	base := len(b.Ends)
	b.Ends = slices.Grow(b.Ends, rb.rows)[:base+rb.rows]
	for i := range rb.rows {
		b.Ends[base+i] = bit(data, i) && (valid == nil || bit(valid, i))
	}
	return nil
}
