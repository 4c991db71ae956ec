package codec

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A decoder remembers the names of streams so that a message of known names
// allocates nothing. Beyond these bounds the decoder forgets all names at the
// next message; then it allocates once more, and nothing else changes.
const (
	maxKnownKeys     = 1 << 16
	maxKnownKeyBytes = 4 << 20
)

// badEntry is the entry of a dictionary value that cannot name a stream.
const badEntry = -1

// keyTable maps stream ids to positions in the current message.
type keyTable struct {
	ids     map[string]int32 // name -> index of entries
	entries []keyEntry
	bytes   int    // of all names
	message uint64 // number of the current message
}

type keyEntry struct {
	name    string
	message uint64 // the message of position
	pos     int32  // index into Batch.Keys
}

// begin starts a message.
func (t *keyTable) begin() {
	t.message++
	if t.ids == nil || len(t.entries) > maxKnownKeys || t.bytes > maxKnownKeyBytes {
		*t = keyTable{ids: make(map[string]int32), message: t.message}
	}
}

// entry finds or makes the entry of a name; ok is false if it is not UTF-8.
func (t *keyTable) entry(name []byte) (e int32, ok bool) {
	if e, known := t.ids[string(name)]; known {
		return e, true
	}
	if !utf8.Valid(name) {
		return 0, false
	}
	e = int32(len(t.entries))
	s := string(name)
	t.entries = append(t.entries, keyEntry{name: s})
	t.ids[s] = e
	t.bytes += len(s)
	return e, true
}

// pos returns the position of an entry's name in b.Keys, and appends a name
// that is new to this message.
func (t *keyTable) pos(e int32, b *Batch) int32 {
	k := &t.entries[e]
	if k.message != t.message {
		k.message, k.pos = t.message, int32(len(b.Keys))
		b.Keys = append(b.Keys, k.name)
	}
	return k.pos
}

// appendKeys appends the column stream_id of one record batch to b.Key and its
// new ids to b.Keys.
func (d *Decoder) appendKeys(rb *recordBatch, c *column, b *Batch) error {
	valid, err := rb.bitmap(c, 0, 0, 1)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		if valid != nil && !bit(valid, i) {
			return badKey(b, i, c, "null")
		}
	}
	b.Key = slices.Grow(b.Key, rb.rows)
	switch {
	case c.typ.dictionary:
		return d.dictionaryKeys(rb, c, b)
	case c.typ.kind == typeInt:
		return d.integerKeys(rb, c, b)
	}
	return d.textKeys(rb, c, b)
}

func badKey(b *Batch, i int, c *column, what string) error {
	return malformed("row %d, field %q: %s, want a stream id", b.Rows+i, c.name, what)
}

func (d *Decoder) textKeys(rb *recordBatch, c *column, b *Batch) error {
	t, err := rb.texts(c, &d.blocks)
	if err != nil {
		return err
	}
	var last []byte
	var pos int32
	for i := range rb.rows {
		name, err := t.at(i)
		if err != nil {
			return badKey(b, i, c, err.Error())
		}
		if len(name) == 0 {
			return badKey(b, i, c, "empty")
		}
		if !bytes.Equal(name, last) { // consecutive rows mostly belong to one stream
			e, ok := d.keys.entry(name)
			if !ok {
				return badKey(b, i, c, "not UTF-8")
			}
			last, pos = name, d.keys.pos(e, b)
		}
		b.Key = append(b.Key, pos)
	}
	return nil
}

func (d *Decoder) integerKeys(rb *recordBatch, c *column, b *Batch) error {
	w := c.typ.num.width()
	data, err := rb.buffer(c, 1, rb.rows*w)
	if err != nil {
		return err
	}
	var text [20]byte
	var last []byte
	var pos int32
	for i := range rb.rows {
		raw := data[i*w : i*w+w]
		if !bytes.Equal(raw, last) {
			e, _ := d.keys.entry(appendInteger(text[:0], c.typ.num, raw))
			last, pos = raw, d.keys.pos(e, b)
		}
		b.Key = append(b.Key, pos)
	}
	return nil
}

// appendInteger appends one integer in decimal.
func appendInteger(dst []byte, num number, b []byte) []byte {
	if num == uint64s {
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b), 10)
	}
	return strconv.AppendInt(dst, integer(num, b), 10)
}

// integer reads one integer; a uint64 beyond int64 becomes negative.
func integer(num number, b []byte) int64 {
	le := binary.LittleEndian
	switch num {
	case int8s:
		return int64(int8(b[0]))
	case uint8s:
		return int64(b[0])
	case int16s:
		return int64(int16(le.Uint16(b)))
	case uint16s:
		return int64(le.Uint16(b))
	case int32s:
		return int64(int32(le.Uint32(b)))
	case uint32s:
		return int64(le.Uint32(b))
	}
	return int64(le.Uint64(b))
}

func (d *Decoder) dictionaryKeys(rb *recordBatch, c *column, b *Batch) error {
	w := c.typ.index.width()
	data, err := rb.buffer(c, 1, rb.rows*w)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		at := integer(c.typ.index, data[i*w:])
		if at < 0 || at >= int64(len(d.dict)) {
			return malformed("row %d, field %q: index %d into a dictionary of %d", b.Rows+i, c.name, at, len(d.dict))
		}
		e := d.dict[at]
		if e == badEntry {
			return badKey(b, i, c, "null, empty or not UTF-8")
		}
		b.Key = append(b.Key, d.keys.pos(e, b))
	}
	return nil
}

// dictionary reads a dictionary batch of stream_id.
func (d *Decoder) dictionary(p *plan, fr *frame) error {
	if p.stream == nil || !p.stream.typ.dictionary || fr.meta.fieldI64(fr.header, 0) != p.stream.typ.id {
		return nil
	}
	rb, err := readBatch(fr, fr.meta.fieldTable(fr.header, 1), &d.inflate)
	if err != nil {
		return err
	}
	if fr.meta.fieldU8(fr.header, 2) == 0 { // else a delta, which adds to the entries
		d.dict = d.dict[:0]
	}
	c := column{name: p.stream.name, typ: dataType{kind: p.stream.typ.kind}}
	valid, err := rb.bitmap(&c, 0, 0, 1)
	if err != nil {
		return err
	}
	t, err := rb.texts(&c, &d.blocks)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		e, ok := int32(0), false
		if valid == nil || bit(valid, i) {
			if name, err := t.at(i); err == nil && len(name) > 0 {
				e, ok = d.keys.entry(name)
			}
		}
		if !ok {
			e = badEntry // an error only for rows with this value
		}
		d.dict = append(d.dict, e)
	}
	return nil
}

// KeyTable gives stream ids their places in Batch.Keys, for decoders of other
// formats than Arrow. Known ids cost no allocation.
type KeyTable struct{ table keyTable }

// Begin starts a new message: no id has a place yet.
func (t *KeyTable) Begin() { t.table.begin() }

// Append adds the stream id of the next row to b. For an id that is empty or
// not UTF-8, Append adds nothing and returns false.
func (t *KeyTable) Append(name []byte, b *Batch) bool {
	if len(name) == 0 {
		return false
	}
	e, ok := t.table.entry(name)
	if ok {
		b.Key = append(b.Key, t.table.pos(e, b))
	}
	return ok
}
