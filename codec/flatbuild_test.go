package codec

import (
	"encoding/binary"
	"slices"
)

// flatbuild writes flatbuffers that no honest writer would: tables in the
// order of calls, references added later with point.
type flatbuild struct{ b []byte }

// table writes a table of n fields of 8 bytes each and returns its position;
// slot i is at pos + 4 + 8*i.
func (f *flatbuild) table(n int) int {
	vtable := len(f.b)
	f.b = binary.LittleEndian.AppendUint16(f.b, uint16(4+2*n))
	f.b = binary.LittleEndian.AppendUint16(f.b, uint16(4+8*n))
	for i := range n {
		f.b = binary.LittleEndian.AppendUint16(f.b, uint16(4+8*i))
	}
	pos := len(f.b)
	f.b = binary.LittleEndian.AppendUint32(f.b, uint32(pos-vtable))
	f.b = append(f.b, make([]byte, 8*n)...)
	return pos
}

// point makes the four bytes at pos refer to target, which lies after them.
func (f *flatbuild) point(pos, target int) {
	binary.LittleEndian.PutUint32(f.b[pos:], uint32(target-pos))
}

// vector writes a vector of n references and returns its position; element i
// is at pos + 4 + 4*i.
func (f *flatbuild) vector(n int) int {
	pos := len(f.b)
	f.b = binary.LittleEndian.AppendUint32(f.b, uint32(n))
	f.b = append(f.b, make([]byte, 4*n)...)
	return pos
}

func (f *flatbuild) text(s string) int {
	pos := len(f.b)
	f.b = append(binary.LittleEndian.AppendUint32(f.b, uint32(len(s))), s...)
	return pos
}

// schema begins a schema message; the returned position is of the Schema table.
func (f *flatbuild) schema() int {
	f.b = make([]byte, 4)
	m := f.table(3)
	f.point(0, m)
	f.b[m+4] = 4             // version V5
	f.b[m+12] = headerSchema // kind
	s := f.table(3)
	f.b[s+4] = 0 // little endian
	f.point(m+20, s)
	return s
}

// structField writes a Field table of type struct without name and children.
func (f *flatbuild) structField() int {
	pos := f.table(6)
	f.b[pos+4+8*2] = typeStruct
	f.point(pos+4+8*3, f.table(0))
	f.point(pos+4+8*0, f.text(""))
	f.clearSlot(pos, 4)
	f.clearSlot(pos, 5)
	return pos
}

// clearSlot makes a table leave out a field.
func (f *flatbuild) clearSlot(table, slot int) {
	vtable := table - int(binary.LittleEndian.Uint32(f.b[table:]))
	binary.LittleEndian.PutUint16(f.b[vtable+4+2*slot:], 0)
}

func (f *flatbuild) setSlot(table, slot int) {
	vtable := table - int(binary.LittleEndian.Uint32(f.b[table:]))
	binary.LittleEndian.PutUint16(f.b[vtable+4+2*slot:], uint16(4+8*slot))
}

// message frames schema metadata as a payload without record batches.
func message(meta []byte) []byte {
	for len(meta)%8 != 0 {
		meta = append(meta, 0)
	}
	head := binary.LittleEndian.AppendUint32([]byte{255, 255, 255, 255}, uint32(len(meta)))
	return slices.Concat(head, meta, eos)
}

// sharedFields is a schema whose n fields share a table.
func sharedFields(n int, name string) []byte {
	var f flatbuild
	s := f.schema()
	v := f.vector(n)
	f.point(s+4+8, v)
	f.clearSlot(s, 2)
	field := f.structField()
	f.point(field+4, f.text(name))
	for i := range n {
		f.point(v+4+4*i, field)
	}
	return f.b
}

// doublingField is a field with two children that share a table with two
// children: 2^depth fields.
func doublingField(depth int) []byte {
	var f flatbuild
	s := f.schema()
	f.clearSlot(s, 2)
	v := f.vector(1)
	f.point(s+4+8, v)
	from := []int{v + 4}
	for range depth {
		field := f.structField()
		for _, pos := range from {
			f.point(pos, field)
		}
		f.setSlot(field, 5)
		v := f.vector(2)
		f.point(field+4+8*5, v)
		from = []int{v + 4, v + 8}
	}
	field := f.structField()
	for _, pos := range from {
		f.point(pos, field)
	}
	return f.b
}

// nestedField is a field in a field in a field.
func nestedField(depth int) []byte {
	var f flatbuild
	s := f.schema()
	f.clearSlot(s, 2)
	v := f.vector(1)
	f.point(s+4+8, v)
	for range depth {
		field := f.structField()
		f.point(v+4, field)
		f.setSlot(field, 5)
		v = f.vector(1)
		f.point(field+4+8*5, v)
	}
	f.point(v+4, f.structField())
	return f.b
}

// sharedMetadata is a schema without fields whose n metadata entries share a table.
func sharedMetadata(n int, value string) []byte {
	var f flatbuild
	s := f.schema()
	f.point(s+4+8, f.vector(0))
	v := f.vector(n)
	f.point(s+4+8*2, v)
	kv := f.table(2)
	f.point(kv+4, f.text("eusn.model"))
	f.point(kv+4+8, f.text(value))
	for i := range n {
		f.point(v+4+4*i, kv)
	}
	return f.b
}
