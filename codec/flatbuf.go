package codec

import "encoding/binary"

// flatbuf reads one flatbuffer with every access checked against the available
// bytes. The first bad access sets bad, and later reads return zero, so a
// caller may read a whole table and check once.
//
// Positions are byte offsets into b. Slots are field numbers of a table in the
// order of the Arrow .fbs files; position 0 means "absent": no table, field or
// vector has position 0 because the root offset is there.
type flatbuf struct {
	b   []byte
	bad bool
}

// ok reports whether n bytes at pos exist, and otherwise sets bad.
func (f *flatbuf) ok(pos, n int) bool {
	if f.bad || pos < 0 || n < 0 || pos > len(f.b)-n {
		f.bad = true
		return false
	}
	return true
}

func (f *flatbuf) u8(pos int) uint8 {
	if !f.ok(pos, 1) {
		return 0
	}
	return f.b[pos]
}

func (f *flatbuf) u16(pos int) uint16 {
	if !f.ok(pos, 2) {
		return 0
	}
	return binary.LittleEndian.Uint16(f.b[pos:])
}

func (f *flatbuf) u32(pos int) uint32 {
	if !f.ok(pos, 4) {
		return 0
	}
	return binary.LittleEndian.Uint32(f.b[pos:])
}

func (f *flatbuf) i64(pos int) int64 {
	if !f.ok(pos, 8) {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(f.b[pos:]))
}

// deref follows the offset stored at pos. Offsets point forward only, so
// tables cannot form a cycle.
func (f *flatbuf) deref(pos int) int {
	off := f.u32(pos)
	if off > uint32(len(f.b)) || !f.ok(pos+int(off), 4) {
		f.bad = true
		return 0
	}
	return pos + int(off)
}

// field returns the position of a table's field, 0 if the table omits the field.
func (f *flatbuf) field(table, slot int) int {
	vtable := table - int(int32(f.u32(table)))
	size := int(f.u16(vtable))
	entry := 4 + 2*slot
	if entry+2 > size {
		return 0
	}
	off := int(f.u16(vtable + entry))
	if off == 0 || !f.ok(table+off, 1) {
		return 0
	}
	return table + off
}

// The getters below return the format's default, 0, for an absent field.

func (f *flatbuf) fieldU8(table, slot int) uint8 {
	if p := f.field(table, slot); p != 0 {
		return f.u8(p)
	}
	return 0
}

func (f *flatbuf) fieldI16(table, slot int) int16 {
	if p := f.field(table, slot); p != 0 {
		return int16(f.u16(p))
	}
	return 0
}

func (f *flatbuf) fieldI32(table, slot int) int32 {
	if p := f.field(table, slot); p != 0 {
		return int32(f.u32(p))
	}
	return 0
}

func (f *flatbuf) fieldI64(table, slot int) int64 {
	if p := f.field(table, slot); p != 0 {
		return f.i64(p)
	}
	return 0
}

// fieldTable returns the position of a sub-table, 0 if absent.
func (f *flatbuf) fieldTable(table, slot int) int {
	if p := f.field(table, slot); p != 0 {
		return f.deref(p)
	}
	return 0
}

// fieldVector returns the position of a vector's first element and its length,
// checked against the bytes: a vector of n elements of the given size holds
// n*size bytes.
func (f *flatbuf) fieldVector(table, slot, size int) (pos, n int) {
	p := f.fieldTable(table, slot)
	if p == 0 {
		return 0, 0
	}
	count := f.u32(p)
	if uint64(count)*uint64(size) > uint64(len(f.b)) || !f.ok(p+4, int(count)*size) {
		f.bad = true
		return 0, 0
	}
	return p + 4, int(count)
}

// fieldString returns a view of a string, nil if absent.
func (f *flatbuf) fieldString(table, slot int) []byte {
	p, n := f.fieldVector(table, slot, 1)
	if f.bad {
		return nil
	}
	return f.b[p : p+n]
}
