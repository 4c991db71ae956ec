package codec

// column locates a field in every record batch of its schema.
type column struct {
	name  string
	typ   dataType
	node  int // index of its field node
	buf   int // index of its first buffer, not counting those of ...
	views int // ... this many view-typed fields before it
}

// schemaField is one top-level field as found by the schema walk.
type schemaField struct {
	name []byte // view into the message
	col  column // without name
}

// maxDepth limits the nesting of fields; the Arrow libraries use the same limit.
const maxDepth = 64

// schemaWalk counts nodes and buffers over the field tree in the order of
// record batches.
type schemaWalk struct {
	f               *flatbuf
	node, buf, view int
	left            int // field visits left, see walkSchema
	v4              bool
}

// walkSchema calls visit for every top-level field of a schema message.
//
// A flatbuffer may refer to one table many times, so a small schema can
// describe an exponentially large tree. A real field has 16 bytes of its own or
// more; the walk refuses a schema with more visits.
func walkSchema(fr *frame, visit func(schemaField) error) error {
	f := &fr.meta
	if f.fieldI16(fr.header, 0) != 0 {
		return mismatch("big-endian schema, want little-endian")
	}
	w := schemaWalk{f: f, left: len(f.b) / 16, v4: fr.v4}
	fields, n := f.fieldVector(fr.header, 1, 4)
	for i := range n {
		table := f.deref(fields + 4*i)
		sf := schemaField{name: f.fieldString(table, 0), col: column{node: w.node, buf: w.buf, views: w.view}}
		var err error
		if sf.col.typ, err = w.field(table, 0); err != nil {
			return err
		}
		if err := visit(sf); err != nil {
			return err
		}
	}
	if f.bad {
		return malformed("schema is not a readable flatbuffer")
	}
	return nil
}

// field reads the type of one field and counts its nodes and buffers, with
// those of its children, in a record batch.
func (w *schemaWalk) field(table, depth int) (dataType, error) {
	w.left--
	if w.f.bad || w.left < 0 || depth > maxDepth {
		return dataType{}, malformed("schema is not a readable flatbuffer, or describes more fields than it has room for")
	}
	t := w.readType(table)
	if t.kind == typeUnion && w.v4 {
		return t, mismatch("a union field in metadata version V4 has another layout, want version V5")
	}
	dense := t.kind == typeUnion && w.f.fieldI16(w.f.fieldTable(table, 3), 0) == 1
	n, views := t.buffers(dense)
	w.node++
	w.buf += n
	if views {
		w.view++
	}
	if t.dictionary { // the children belong to the dictionary's values
		return t, nil
	}
	children, count := w.f.fieldVector(table, 5, 4)
	for i := range count {
		child, err := w.field(w.f.deref(children+4*i), depth+1)
		if err != nil {
			return t, err
		}
		if (t.kind == typeFixedSizeList || t.kind == typeList) && count == 1 {
			t.num = child.scalar()
		}
	}
	return t, nil
}

// readType reads a field's type without its children.
func (w *schemaWalk) readType(table int) (t dataType) {
	f := w.f
	t.kind = f.fieldU8(table, 2)
	typ := f.fieldTable(table, 3)
	switch {
	case typ == 0 && t.kind != typeBool:
	case t.kind == typeInt:
		t.num = w.intType(typ)
	case t.kind == typeFloatingPoint:
		if p := f.fieldI16(typ, 0); p >= 0 && p <= 2 {
			t.num = float16s + number(p)
		}
	case t.kind == typeBool:
		t.num = bools
	case t.kind == typeTimestamp:
		t.unit = f.fieldI16(typ, 0)
	case t.kind == typeFixedSizeList:
		t.size = int(f.fieldI32(typ, 0))
	}
	if d := f.fieldTable(table, 4); d != 0 {
		t.dictionary, t.id, t.index = true, f.fieldI64(d, 0), int32s
		if it := f.fieldTable(d, 1); it != 0 {
			t.index = w.intType(it)
		}
	}
	return t
}

// intType reads an Int table.
func (w *schemaWalk) intType(table int) number {
	unsigned := number(1) - min(number(w.f.fieldU8(table, 1)), 1)
	switch w.f.fieldI32(table, 0) {
	case 8:
		return int8s + unsigned
	case 16:
		return int16s + unsigned
	case 32:
		return int32s + unsigned
	case 64:
		return int64s + unsigned
	}
	return notNumber
}

// walkMetadata calls visit for every key and value of the schema's metadata;
// both are views into the message.
func walkMetadata(fr *frame, visit func(key, value []byte)) error {
	f := &fr.meta
	pairs, n := f.fieldVector(fr.header, 2, 4)
	for i := range n {
		kv := f.deref(pairs + 4*i)
		visit(f.fieldString(kv, 0), f.fieldString(kv, 1))
	}
	if f.bad {
		return malformed("schema metadata is not a readable flatbuffer")
	}
	return nil
}

// messageVersion is the eusn.version of input and output messages.
const messageVersion = "1"

// checkVersion refuses messages of another schema or version. Metadata is
// optional: a producer need not know our names.
func checkVersion(fr *frame, want string) error {
	var schema, version []byte
	err := walkMetadata(fr, func(key, value []byte) {
		switch string(key) {
		case "eusn.schema":
			schema = value
		case "eusn.version":
			version = value
		}
	})
	switch {
	case err != nil:
		return err
	case schema != nil && string(schema) != want:
		return mismatch("metadata eusn.schema: want %q, got %.40q", want, schema)
	case version != nil && string(version) != messageVersion:
		return mismatch("metadata eusn.version: want %q, got %.40q", messageVersion, version)
	}
	return nil
}
