package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// template writes messages of a schema with a record batch. The Arrow
// library writes such a message once; from then on only the numbers that differ
// between messages are changed in the copy: rows, null counts, places of
// buffers, body length. Nothing is allocated once out has grown.
//
// Use: begin, then for every field its node and its buffers in the order of the
// format, then finish.
type template struct {
	head             []byte // schema message and record batch message, without body
	rows, bodyLength int    // positions in head
	nodes, bufs      int    // positions in head of the next entry to write
	numBufs          int

	out               []byte
	nextNode, nextBuf int
	bufStart          int
}

// newTemplate makes the template of a schema of at least one field.
func newTemplate(schema *arrow.Schema) (*template, error) {
	sample, err := sampleMessage(schema)
	if err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	_, rest, _, err := nextFrame(sample)
	if err != nil {
		return nil, err
	}
	fr, rest, _, err := nextFrame(rest)
	if err != nil {
		return nil, err
	}
	t := &template{head: sample[:len(sample)-len(rest)-len(fr.body)]}
	f, at := &fr.meta, len(t.head)-len(fr.meta.b)
	root := f.deref(0)
	t.bodyLength = at + f.field(root, 3)
	t.rows = at + f.field(fr.header, 0)
	nodes, _ := f.fieldVector(fr.header, 1, 16)
	bufs, numBufs := f.fieldVector(fr.header, 2, 16)
	t.nodes, t.bufs, t.numBufs = at+nodes, at+bufs, numBufs
	if f.bad || t.rows == at || t.bodyLength == at {
		panic("BUG: codec: the Arrow library wrote a record batch this package cannot read")
	}
	return t, nil
}

// sampleMessage returns a message of one row, not of none, because the format
// omits numbers that are zero, and then has no place for them.
func sampleMessage(schema *arrow.Schema) ([]byte, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, f := range b.Fields() {
		f.AppendEmptyValue()
	}
	rec := b.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// begin starts a message of the given rows.
func (t *template) begin(rows int) {
	t.out = append(t.out[:0], t.head...)
	t.nextNode, t.nextBuf = t.nodes, t.bufs
	t.put(t.rows, rows)
}

// node writes the next field node.
func (t *template) node(length, nulls int) {
	t.put(t.nextNode, length)
	t.put(t.nextNode+8, nulls)
	t.nextNode += 16
}

// open begins the next buffer, which the caller appends to out; close ends the buffer.
func (t *template) open() { t.bufStart = len(t.out) }

func (t *template) close() {
	t.put(t.nextBuf, t.bufStart-len(t.head))
	t.put(t.nextBuf+8, len(t.out)-t.bufStart)
	t.nextBuf += 16
	for (len(t.out)-len(t.head))%8 != 0 { // the format's smallest alignment
		t.out = append(t.out, 0)
	}
}

// empty writes a buffer of no bytes, such as the bitmap of a field without nulls.
func (t *template) empty() {
	t.open()
	t.close()
}

// finish returns the message, valid until the next begin.
func (t *template) finish() []byte {
	if t.nextBuf != t.bufs+16*t.numBufs {
		panic("BUG: codec: a template was filled with the wrong number of buffers")
	}
	t.put(t.bodyLength, len(t.out)-len(t.head))
	t.out = binary.LittleEndian.AppendUint32(t.out, continuation)
	t.out = binary.LittleEndian.AppendUint32(t.out, 0)
	return t.out
}

func (t *template) put(pos, v int) { binary.LittleEndian.PutUint64(t.out[pos:], uint64(v)) }

func (t *template) u32(v uint32)  { t.out = binary.LittleEndian.AppendUint32(t.out, v) }
func (t *template) u64(v uint64)  { t.out = binary.LittleEndian.AppendUint64(t.out, v) }
func (t *template) f32(v float32) { t.u32(math.Float32bits(v)) }

// text writes the buffers of a utf8 field without nulls: none, offsets, bytes.
func (t *template) text(rows int, at func(i int) string) error {
	t.node(rows, 0)
	t.empty()
	t.open()
	total := 0
	t.u32(0)
	for i := range rows {
		if total += len(at(i)); total > math.MaxInt32 {
			return mismatch("field %q: more than %d bytes of text in one message", fieldStream, math.MaxInt32)
		}
		t.u32(uint32(total))
	}
	t.close()
	t.open()
	for i := range rows {
		t.out = append(t.out, at(i)...)
	}
	t.close()
	return nil
}

// bits writes the buffer of a bitmap.
func (t *template) bits(rows int, at func(i int) bool) {
	t.open()
	for from := 0; from < rows; from += 8 {
		var b byte
		for i := from; i < min(from+8, rows); i++ {
			if at(i) {
				b |= 1 << (i - from)
			}
		}
		t.out = append(t.out, b)
	}
	t.close()
}
