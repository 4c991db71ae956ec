package codec

import "math"

// recordBatch is a record batch (or the one column of a dictionary batch) with
// checked tables; its buffers are checked when read.
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

	// left is the number of body bytes that the columns may still claim.
	// Without left, many columns could refer to the same bytes, and a message
	// would decode to many times its size.
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

// maxValues bounds a column so that its size in bytes fits an int on any machine.
const maxValues = math.MaxInt32 / 16

// node checks that the column has the batch's rows (times per, for the elements
// of a list) and reports whether some are null.
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

// bitmap returns the validity bitmap of a column, nil if no value is null. buf
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
	first, err := rb.first(c)
	if err != nil {
		return nil, err
	}
	b, err := rb.contents(c, first+i)
	if err != nil {
		return nil, err
	}
	if need < 0 || len(b) < need {
		return nil, malformed("field %q: buffer of %d bytes, %d rows need %d", c.name, len(b), rb.rows, need)
	}
	return b[:need], rb.claim(c, need)
}

// claim counts the bytes of a column against the bytes of the body.
func (rb *recordBatch) claim(c *column, n int) error {
	if rb.compressed { // the inflater's budget counts the bytes
		return nil
	}
	if rb.left -= n; rb.left < 0 {
		return malformed("field %q: fields share bytes: they claim more than the body of %d bytes holds", c.name, len(rb.body))
	}
	return nil
}

// first is the place of the column's first buffer among the batch's.
func (rb *recordBatch) first(c *column) (at int, err error) {
	at = c.buf
	for v := range c.views {
		if v >= rb.numViews {
			return 0, malformed("field %q: view fields before it have no buffer counts", c.name)
		}
		n := rb.f.i64(rb.views + 8*v)
		if n < 0 || n > int64(rb.numBufs) {
			return 0, malformed("field %q: a view field before it claims %d buffers", c.name, n)
		}
		at += int(n)
	}
	return at, nil
}

// contents is the whole of the batch's buffer at a place, decompressed.
func (rb *recordBatch) contents(c *column, at int) (b []byte, err error) {
	if at >= rb.numBufs {
		return nil, malformed("field %q: record batch has only %d buffers", c.name, rb.numBufs)
	}
	offset, length := rb.f.i64(rb.bufs+16*at), rb.f.i64(rb.bufs+16*at+8)
	if offset < 0 || length < 0 || length > int64(len(rb.body))-offset {
		return nil, malformed("field %q: buffer of %d bytes at %d in a body of %d", c.name, length, offset, len(rb.body))
	}
	b = rb.body[offset : offset+length]
	if rb.compressed && len(b) > 0 { // an empty buffer is stored as nothing at all
		if b, err = rb.inflate.buffer(b); err != nil {
			return nil, malformed("field %q: %v", c.name, err)
		}
	}
	return b, nil
}

// bit is entry i of a bitmap.
func bit(b []byte, i int) bool { return b[i>>3]>>(i&7)&1 != 0 }
