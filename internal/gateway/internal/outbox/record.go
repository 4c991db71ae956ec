package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/eusn-stream/eusn-stream/internal/producer"
)

const (
	version    = 1 // of the format
	headBytes  = 8
	kindBatch  = 'b'
	kindMoved  = 'm'
	kindDone   = 'd'
	kindForget = 'f'
	kindAll    = 's'
	kindEnd    = 'e'
)

// magic is the first line of a segment.
var magic = fmt.Appendf(nil, "eusn-outbox %d\n", version)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealRecord fills in the head of a record whose body begins after headBytes.
func sealRecord(rec []byte) []byte {
	body := rec[headBytes:]
	binary.LittleEndian.PutUint32(rec, uint32(len(body)))
	binary.LittleEndian.PutUint32(rec[4:], crc32.Checksum(body, castagnoli))
	return rec
}

func beginRecord(dst []byte, kind byte) []byte {
	return append(append(dst[:0], make([]byte, headBytes)...), kind)
}

// encodeBatch appends the fields of a batch up to the payload.
func encodeBatch(dst []byte, id uint64, m *producer.Message, origins []Origin) []byte {
	dst = appendText(appendText(binary.AppendUvarint(dst, id), m.Subject), m.Incarnation)
	dst = binary.AppendUvarint(dst, m.Seq)
	dst = binary.AppendUvarint(dst, uint64(len(origins)))
	for _, o := range origins {
		dst = appendText(dst, o.Session)
		for _, v := range []uint64{o.ID, o.Sum, o.Part, bitOf(o.Again)} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return appendText(binary.AppendUvarint(dst, bitOf(m.End)), m.Unreadable)
}

func bitOf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

var errShort = errors.New("record is shorter than its fields")

// reader reads fields from a body. After the first missing field, all fields are empty
// and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) u64() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errShort
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) readText() string {
	n := r.u64()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errShort
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// readCount reads a number of items of at least one byte each.
func (r *reader) readCount() int {
	n := r.u64()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errShort
		return 0
	}
	return int(n)
}
