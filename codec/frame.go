package codec

import (
	"bytes"
	"encoding/binary"
)

// Kinds of IPC messages: the union MessageHeader of the format.
const (
	headerSchema          = 1
	headerDictionaryBatch = 2
	headerRecordBatch     = 3
)

// continuation marks the beginning of every IPC message.
const continuation = 0xffffffff

// frame is one encapsulated IPC message.
//
//	ff ff ff ff | int32 metadata length | metadata flatbuffer | body
type frame struct {
	kind   uint8
	meta   flatbuf
	header int // position of the header table in meta
	body   []byte
	v4     bool // metadata version V4, else V5
}

// nextFrame cuts the first IPC message off b and returns the remaining bytes.
// more is false at the end-of-stream marker, which must end the payload:
// without the marker a message cut between two record batches would pass for a
// shorter message.
func nextFrame(b []byte) (fr frame, rest []byte, more bool, err error) {
	if len(b) == 0 {
		return fr, nil, false, malformed("no end-of-stream marker: the message is cut short or its writer was not closed")
	}
	if len(b) < 8 {
		return fr, nil, false, malformed("%d bytes where a message header of 8 should be", len(b))
	}
	if v := binary.LittleEndian.Uint32(b); v != continuation {
		if bytes.HasPrefix(b, []byte("ARROW1")) {
			return fr, nil, false, malformed("an Arrow file (ARROW1), want the IPC stream format: write with a stream writer, as pyarrow.ipc.new_stream, write_ipc_stream or RecordBatchStreamWriter")
		}
		return fr, nil, false, malformed("want the continuation marker ffffffff, got %08x: no Arrow IPC stream, or one written before version 0.15", v)
	}
	n := int(int32(binary.LittleEndian.Uint32(b[4:])))
	b = b[8:]
	if n == 0 {
		if len(b) != 0 {
			return fr, nil, false, malformed("%d bytes after the end-of-stream marker", len(b))
		}
		return fr, nil, false, nil
	}
	if n < 0 || n > len(b) {
		return fr, nil, false, malformed("want metadata of %d bytes, got %d: the message is cut short or damaged", n, len(b))
	}
	fr.meta.b, b = b[:n], b[n:]
	body, err := fr.parse()
	if err != nil {
		return fr, nil, false, err
	}
	if body < 0 || body > int64(len(b)) {
		return fr, nil, false, malformed("want a body of %d bytes, got %d: the message is cut short or damaged", body, len(b))
	}
	fr.body = b[:body]
	return fr, b[body:], true, nil
}

// parse reads the Message table and returns the declared body length.
func (fr *frame) parse() (body int64, err error) {
	m := &fr.meta
	root := m.deref(0)
	version := m.fieldI16(root, 0)
	fr.kind = m.fieldU8(root, 1)
	fr.header = m.fieldTable(root, 2)
	body = m.fieldI64(root, 3)
	switch {
	case m.bad || fr.header == 0:
		return 0, malformed("message metadata is not a readable flatbuffer")
	case version != 3 && version != 4: // older versions lay buffers out differently
		return 0, malformed("metadata version V%d, want V4 or V5", version+1)
	}
	fr.v4 = version == 3
	return body, nil
}
