package codec

import "encoding/binary"

// moreField is a field that some messages have behind a prediction's.
type moreField struct {
	name     string
	typ      dataType
	nullable bool
}

// anySize is the size of a list in a moreField that has as many elements as it has.
const anySize = 0

// checkMore wants the fields of r.more.
func (r *predictionReader) checkMore(c *collector) error {
	for _, f := range r.more {
		col := c.want[f.name]
		if col == nil {
			return mismatch("field %q: want it, got %s", f.name, c.seen())
		}
		if typ := col.typ; typ.kind == typeFixedSizeList && f.typ.kind == typeFixedSizeList && !typ.dictionary && typ.num == f.typ.num && typ.size > 0 {
			continue
		}
		if col.typ != f.typ {
			return col.wants(f.typ.String())
		}
	}
	return nil
}

// fixed are the values of the fields of r.more with one number per row; valid has the
// bitmaps of those with nulls.
func (r *predictionReader) fixed(rb *recordBatch) (fixed, valid map[string][]byte, err error) {
	fixed, valid = map[string][]byte{}, map[string][]byte{}
	for _, f := range r.more {
		if f.typ.kind == typeUtf8 || f.typ.kind == typeFixedSizeList {
			continue
		}
		col := r.cols[f.name]
		if f.nullable {
			valid[f.name], err = rb.bitmap(col, 0, 0, 1)
		} else {
			err = noNulls(rb, col, 0, 1)
		}
		if err != nil {
			return nil, nil, err
		}
		width := 8 // of a time
		if f.typ.num != notNumber {
			width = f.typ.num.width()
		}
		if fixed[f.name], err = rb.buffer(col, 1, rb.rows*width); err != nil {
			return nil, nil, err
		}
	}
	return fixed, valid, nil
}

// timeAt is a time of row i.
func timeAt(fixed, valid map[string][]byte, name string, i int) int64 {
	if valid[name] != nil && !bit(valid[name], i) {
		return NoTime
	}
	return int64(binary.LittleEndian.Uint64(fixed[name][8*i:]))
}

// list is a field of float32 lists of one length, of one record batch; nil where the
// message does not have it.
func (r *predictionReader) list(rb *recordBatch, name string) ([]float32, error) {
	c := r.cols[name]
	if c == nil {
		return nil, nil
	}
	if err := noNulls(rb, c, 0, 1); err != nil {
		return nil, err
	}
	if err := noNulls(rb, c, 1, c.typ.size); err != nil {
		return nil, err
	}
	n := rb.rows * c.typ.size
	data, err := rb.buffer(c, 2, 4*n)
	if err != nil {
		return nil, err
	}
	all := make([]float32, n)
	gatherFloat32(all, 1, data)
	return all, nil
}
