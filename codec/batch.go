package codec

import (
	"encoding/binary"
	"math"
)

// recordBatch is a record batch (or the one column of a dictionary batch)
// whose tables have been checked; its buffers are checked as they are read.
type recordBatch struct {
	rows            int
	f               flatbuf // a copy: a pointer would move the frame to the heap
	nodes, numNodes int
	bufs, numBufs   int
	views, numViews int // how many further buffers each view-typed field has
	body            []byte
	compressed      bool
	codec           uint8
	inflate         *inflater

	// left is how many bytes of the body the columns may still claim. Without
	// it many columns could point at the same bytes, and a message would
	// decode to many times its size.
	left int
}

// readBatch reads the RecordBatch table at the given position of fr.
func readBatch(fr *frame, table int, inflate *inflater) (rb recordBatch, err error) {
	f := fr.meta
	rb = recordBatch{body: fr.body, left: len(fr.body), inflate: inflate}
	rows := f.fieldI64(table, 0)
	rb.nodes, rb.numNodes = f.fieldVector(table, 1, 16)
	rb.bufs, rb.numBufs = f.fieldVector(table, 2, 16)
	rb.views, rb.numViews = f.fieldVector(table, 4, 8)
	if c := f.fieldTable(table, 3); c != 0 {
		rb.compressed, rb.codec = true, f.fieldU8(c, 0)
		inflate.begin(rb.codec)
	}
	switch {
	case f.bad || table == 0:
		return rb, malformed("record batch is not a readable flatbuffer")
	case rows < 0 || rows > maxValues:
		return rb, malformed("record batch of %d rows", rows)
	}
	rb.rows, rb.f = int(rows), f
	return rb, nil
}

// maxValues bounds a column so that its size in bytes fits an int anywhere.
const maxValues = math.MaxInt32 / 16

// node checks that the column has the batch's rows (times per, for the
// elements of a list) and says whether some are null.
func (rb *recordBatch) node(c *column, child, per int) (nulls bool, err error) {
	i := c.node + child
	if i >= rb.numNodes {
		return false, malformed("field %q: record batch has only %d field nodes", c.name, rb.numNodes)
	}
	want := int64(rb.rows) * int64(per)
	length, count := rb.f.i64(rb.nodes+16*i), rb.f.i64(rb.nodes+16*i+8)
	switch {
	case want > maxValues:
		return false, malformed("field %q: %d values in one record batch, at most %d fit", c.name, want, maxValues)
	case length != want:
		return false, malformed("field %q: %d values in a record batch of %d rows, want %d", c.name, length, rb.rows, want)
	case count < 0 || count > length:
		return false, malformed("field %q: %d nulls among %d values", c.name, count, length)
	}
	return count > 0, nil
}

// bitmap is the validity bitmap of a column, nil where no value is null. buf
// counts from the column's first buffer, as in buffer.
func (rb *recordBatch) bitmap(c *column, child, buf, per int) ([]byte, error) {
	nulls, err := rb.node(c, child, per)
	if err != nil || !nulls {
		return nil, err
	}
	return rb.buffer(c, buf, (rb.rows*per+7)/8)
}

// buffer is the first need bytes of the column's buffer with index i,
// decompressed. A buffer that holds less is an error, so no caller can be made
// to loop over more rows than the message carries.
func (rb *recordBatch) buffer(c *column, i, need int) ([]byte, error) {
	b, err := rb.rawBuffer(c, i)
	if err != nil {
		return nil, err
	}
	if rb.compressed && len(b) > 0 { // an empty buffer is stored as nothing at all
		if b, err = rb.inflate.buffer(b); err != nil {
			return nil, malformed("field %q: %v", c.name, err)
		}
	}
	if need < 0 || len(b) < need {
		return nil, malformed("field %q: buffer of %d bytes, %d rows need %d", c.name, len(b), rb.rows, need)
	}
	if !rb.compressed {
		if rb.left -= need; rb.left < 0 {
			return nil, malformed("field %q: fields share bytes: they claim more than the body of %d bytes holds", c.name, len(rb.body))
		}
	}
	return b[:need], nil
}

// rawBuffer is the column's buffer with index i as it lies in the body.
func (rb *recordBatch) rawBuffer(c *column, i int) ([]byte, error) {
	at := c.buf + i
	for v := range c.views {
		if v >= rb.numViews {
			return nil, malformed("field %q: view fields before it have no buffer counts", c.name)
		}
		n := rb.f.i64(rb.views + 8*v)
		if n < 0 || n > int64(rb.numBufs) {
			return nil, malformed("field %q: a view field before it claims %d buffers", c.name, n)
		}
		at += int(n)
	}
	if at >= rb.numBufs {
		return nil, malformed("field %q: record batch has only %d buffers", c.name, rb.numBufs)
	}
	offset, length := rb.f.i64(rb.bufs+16*at), rb.f.i64(rb.bufs+16*at+8)
	if offset < 0 || length < 0 || length > int64(len(rb.body))-offset {
		return nil, malformed("field %q: buffer of %d bytes at %d in a body of %d", c.name, length, offset, len(rb.body))
	}
	return rb.body[offset : offset+length], nil
}

// bit is entry i of a bitmap.
func bit(b []byte, i int) bool { return b[i>>3]>>(i&7)&1 != 0 }

// texts is a utf8 or large_utf8 column whose offsets have been checked.
type texts struct {
	offsets []byte
	data    []byte
	wide    bool // 64-bit offsets
}

// at is a view of value i.
func (t *texts) at(i int) []byte { return t.data[t.offset(i):t.offset(i+1)] }

func (t *texts) offset(i int) int {
	if t.wide {
		return int(binary.LittleEndian.Uint64(t.offsets[8*i:]))
	}
	return int(binary.LittleEndian.Uint32(t.offsets[4*i:]))
}

// texts reads the offsets and bytes of a column of rows strings.
func (rb *recordBatch) texts(c *column) (t texts, err error) {
	if rb.rows == 0 { // writers may leave out the single offset of no rows
		return t, nil
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
