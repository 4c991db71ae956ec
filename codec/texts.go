package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// texts is a column of strings, of any of the format's three layouts.
type texts struct {
	offsets []byte
	data    []byte
	wide    bool // 64-bit offsets

	views  []byte   // utf8_view: 16 bytes a row, instead of the above
	blocks [][]byte // places of long strings
	left   int      // bytes still available for long strings
}

// at is a view of value i. Only that of a utf8_view can be wrong here: offsets
// have been checked.
func (t *texts) at(i int) ([]byte, error) {
	if t.views != nil {
		return t.viewed(t.views[16*i:][:16])
	}
	return t.data[t.offset(i):t.offset(i+1)], nil
}

func (t *texts) offset(i int) int {
	if t.wide {
		return int(binary.LittleEndian.Uint64(t.offsets[8*i:]))
	}
	return int(binary.LittleEndian.Uint32(t.offsets[4*i:]))
}

// viewed follows one view:
//
//	int32 length | 12 bytes of text                            up to 12 bytes
//	int32 length | its first 4 bytes | int32 block | int32 offset       longer
func (t *texts) viewed(v []byte) ([]byte, error) {
	le := binary.LittleEndian
	n := int(int32(le.Uint32(v)))
	if n >= 0 && n <= 12 {
		return v[4 : 4+n], nil
	}
	block, offset := int(int32(le.Uint32(v[8:]))), int(int32(le.Uint32(v[12:])))
	if n < 0 || block < 0 || block >= len(t.blocks) || offset < 0 || offset > len(t.blocks[block])-n {
		return nil, fmt.Errorf("view of %d bytes at %d in block %d of %d", n, offset, block, len(t.blocks))
	}
	if t.left -= n; t.left < 0 {
		return nil, fmt.Errorf("views share bytes: they claim far more than there are")
	}
	return t.blocks[block][offset : offset+n], nil
}

// sharedView is the number of bytes of a string that each row may take from a
// block shared with other rows: writers store a repeated id once. Without a
// bound a small message could name one long string many times.
const sharedView = 64

// texts reads a column of rows strings. blocks is room for a utf8_view's.
func (rb *recordBatch) texts(c *column, blocks *[][]byte) (t texts, err error) {
	if rb.rows == 0 { // writers may leave out the single offset of no rows
		return t, nil
	}
	if c.typ.kind == typeUtf8View {
		return rb.viewTexts(c, blocks)
	}
	t.wide = c.typ.kind == typeLargeUtf8
	width := 4
	if t.wide {
		width = 8
	}
	if t.offsets, err = rb.buffer(c, 1, (rb.rows+1)*width); err != nil {
		return t, err
	}
	last := 0
	for i := range rb.rows + 1 {
		o := t.offset(i)
		if o < last || o > math.MaxInt32 {
			return t, malformed("row %d, field %q: text offset %d after %d", i, c.name, o, last)
		}
		last = o
	}
	t.data, err = rb.buffer(c, 2, last)
	return t, err
}

// viewTexts reads views and blocks; at checks each view when following it.
func (rb *recordBatch) viewTexts(c *column, blocks *[][]byte) (t texts, err error) {
	if t.views, err = rb.buffer(c, 1, 16*rb.rows); err != nil {
		return t, err
	}
	own := column{name: c.name, buf: c.buf, views: c.views + 1} // counts the column's own blocks, too
	end, err := rb.first(&own)
	if err != nil {
		return t, err
	}
	first, err := rb.first(c)
	if err != nil {
		return t, err
	}
	*blocks, t.left = (*blocks)[:0], sharedView*rb.rows
	for at := first + 2; at < end+2; at++ {
		b, err := rb.contents(c, at)
		if err == nil {
			err = rb.claim(c, len(b))
		}
		if err != nil {
			return t, err
		}
		*blocks = append(*blocks, b)
		t.left += len(b)
	}
	t.blocks = *blocks
	return t, nil
}
