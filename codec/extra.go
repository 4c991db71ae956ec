package codec

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// extra is a column of outcome.Extras, a nullable field that only some models fill. A
// message has the field if a prediction has a value, after the fields common to all
// predictions. So the messages of other models do not have the field.
type extra struct {
	of    *outcome.Column
	field arrow.Field
	typ   dataType
}

// extras are in the order of their fields.
var extras = func() (all []extra) {
	for _, c := range outcome.Extras {
		all = append(all, extra{c, fieldOf(c), typeOf(c)})
	}
	return all
}()

// fieldOf returns the field of a column, except scores, whose type depends on the message.
func fieldOf(c *outcome.Column) arrow.Field {
	return arrow.Field{Name: c.Arrow, Type: arrowTypes[c.Type].field, Nullable: c.Null}
}

func typeOf(c *outcome.Column) dataType { return arrowTypes[c.Type].typ }

// arrowTypes are the types of columns, as written and as seen by the reader.
var arrowTypes = map[outcome.Type]struct {
	field arrow.DataType
	typ   dataType
}{
	outcome.Text:      {arrow.BinaryTypes.String, dataType{kind: typeUtf8}},
	outcome.Time:      {timestampNS, dataType{kind: typeTimestamp, unit: 3}},
	outcome.Uint64:    {arrow.PrimitiveTypes.Uint64, dataType{kind: typeInt, num: uint64s}},
	outcome.Uint32:    {arrow.PrimitiveTypes.Uint32, dataType{kind: typeInt, num: uint32s}},
	outcome.Flags:     {arrow.PrimitiveTypes.Uint32, dataType{kind: typeInt, num: uint32s}},
	outcome.ClassName: {arrow.PrimitiveTypes.Int32, dataType{kind: typeInt, num: int32s}},
	outcome.Float32:   {arrow.PrimitiveTypes.Float32, dataType{kind: typeFloatingPoint, num: float32s}},
	outcome.ClassList: {arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int32), dataType{kind: typeList, num: int32s}},
	outcome.FloatList: {arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32), dataType{kind: typeList, num: float32s}},
}

// write fills in the field's nodes and buffers.
func (e *extra) write(t *template, p []Prediction) {
	switch e.of.Type {
	case outcome.ClassList:
		t.list(p, e.of.Known, func(i int) int { return len(*e.of.Classes(&p[i].Answer)) }, func(i int) {
			for _, class := range *e.of.Classes(&p[i].Answer) {
				t.u32(uint32(class))
			}
		})
	case outcome.FloatList:
		t.list(p, e.of.Known, func(i int) int { return len(*e.of.Floats(&p[i].Answer)) }, func(i int) {
			for _, v := range *e.of.Floats(&p[i].Answer) {
				t.f32(v)
			}
		})
	default:
		t.nullable(p, e.of.Known)
		t.open()
		for i := range p {
			t.f32(*e.of.Float(&p[i].Answer))
		}
		t.close()
	}
}

// read sets the values of the predictions of one record batch.
func (e *extra) read(r *predictionReader, rb *recordBatch, c *column, to []Prediction) error {
	switch e.of.Type {
	case outcome.ClassList:
		return e.readClasses(r, rb, c, to)
	case outcome.FloatList:
		return e.readLists(rb, c, to)
	}
	if e.of.Part == outcome.Regressor {
		for _, other := range numberFields {
			if r.cols[other] == nil {
				return mismatch("field %q without field %q: want value, low and high, or none of them", c.name, other)
			}
		}
	}
	valid, err := rb.bitmap(c, 0, 0, 1)
	if err != nil {
		return err
	}
	data, err := rb.buffer(c, 1, 4*rb.rows)
	if err != nil {
		return err
	}
	for i := range to {
		there := valid == nil || bit(valid, i)
		if e.of.Part == outcome.Regressor && !to[i].agrees(c.name, there) {
			return malformed("row %d, field %q: want a value where field %q has one", i, c.name, numberFields[0])
		}
		if there {
			*e.of.Float(&to[i].Answer) = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	return nil
}

// numberFields are the parts of a prediction's number. A row has all three or none.
var numberFields = [...]string{"value", "low", "high"}

// agrees reports whether a part of the number may be present: the first part decides.
func (p *Prediction) agrees(name string, there bool) bool {
	if name == numberFields[0] {
		p.Number.Known = there
	}
	return there == p.Number.Known
}

// extrasOf returns the extras of a message of these predictions, a bit each.
func extrasOf(p []Prediction) (mask uint) {
	for k := range extras {
		known := extras[k].of.Known
		for i := range p {
			if known(&p[i].Answer) {
				mask |= 1 << k
				break
			}
		}
	}
	return mask
}

// nullable writes the node and the bitmap of a field; there reports whether a row
// has a value.
func (t *template) nullable(p []Prediction, there func(*outcome.Answer) bool) {
	nulls := 0
	for i := range p {
		if !there(&p[i].Answer) {
			nulls++
		}
	}
	t.node(len(p), nulls)
	if nulls > 0 {
		t.bits(len(p), func(i int) bool { return there(&p[i].Answer) })
	} else {
		t.empty()
	}
}

// list writes a field of lists: offsets into the values of all rows, n of row i,
// written by values. has reports whether a row has a list.
func (t *template) list(p []Prediction, has func(*outcome.Answer) bool, n func(i int) int, values func(i int)) {
	t.nullable(p, has)
	t.open()
	total := 0
	t.u32(0)
	for i := range p {
		total += n(i)
		t.u32(uint32(total))
	}
	t.close()
	t.node(total, 0)
	t.empty()
	t.open()
	for i := range p {
		values(i)
	}
	t.close()
}

// lists are the rows of a field of lists.
type lists struct {
	valid   []byte // nil: no row is null
	offsets []byte
	data    []byte // 32 bits of each value
}

// has reports whether row i has a list; of returns the range of its values.
func (l *lists) has(i int) bool { return l.valid == nil || bit(l.valid, i) }

func (l *lists) of(i int) (from, to int) {
	return int(binary.LittleEndian.Uint32(l.offsets[4*i:])), int(binary.LittleEndian.Uint32(l.offsets[4*i+4:]))
}

// value returns value k.
func (l *lists) value(k int) uint32 { return binary.LittleEndian.Uint32(l.data[4*k:]) }

// lists reads a field of lists, and checks all offsets. values counts the values of all rows.
func (rb *recordBatch) lists(c *column) (l lists, values int, err error) {
	if l.valid, err = rb.bitmap(c, 0, 0, 1); err != nil {
		return l, 0, err
	}
	if l.offsets, err = rb.buffer(c, 1, 4*(rb.rows+1)); err != nil {
		return l, 0, err
	}
	for i := 0; i <= rb.rows; i++ {
		at := int(binary.LittleEndian.Uint32(l.offsets[4*i:]))
		if at < values || at > maxValues {
			return l, 0, malformed("row %d, field %q: offset %d after %d", i, c.name, at, values)
		}
		values = at
	}
	if err := rb.elements(c, values); err != nil {
		return l, 0, err
	}
	l.data, err = rb.buffer(c, 3, 4*values)
	return l, values, err
}

// readClasses reads a field of lists of classes.
func (e *extra) readClasses(r *predictionReader, rb *recordBatch, c *column, to []Prediction) error {
	l, total, err := rb.lists(c)
	if err != nil {
		return err
	}
	values := make([]int32, total)
	for i := range values {
		values[i] = int32(l.value(i))
	}
	for i := range to {
		if !l.has(i) {
			continue
		}
		from, end := l.of(i)
		list := values[from:end:end]
		*e.of.Classes(&to[i].Answer) = list
		for k, class := range list {
			if class < 0 || int(class) >= len(r.meta.Labels) || k > 0 && class <= list[k-1] {
				return malformed("row %d, field %q: classes %v, want ascending ones of 0 to %d: the message names %d labels", i, c.name, list, len(r.meta.Labels)-1, len(r.meta.Labels))
			}
		}
	}
	return nil
}

// readLists reads a field of lists of numbers.
func (e *extra) readLists(rb *recordBatch, c *column, to []Prediction) error {
	l, total, err := rb.lists(c)
	if err != nil {
		return err
	}
	values := make([]float32, total)
	for i := range values {
		values[i] = math.Float32frombits(l.value(i))
	}
	for i := range to {
		if l.has(i) {
			from, end := l.of(i)
			*e.of.Floats(&to[i].Answer) = values[from:end:end]
		}
	}
	return nil
}

// elements checks that a list has at least want elements, none of them null.
func (rb *recordBatch) elements(c *column, want int) error {
	i := c.node + 1
	if i >= rb.numNodes {
		return malformed("field %q: record batch has only %d field nodes", c.name, rb.numNodes)
	}
	if length, nulls := rb.f.i64(rb.nodes+16*i), rb.f.i64(rb.nodes+16*i+8); length < int64(want) || nulls != 0 {
		return malformed("field %q: %d elements, %d of them null, want %d and none", c.name, length, nulls, want)
	}
	return nil
}
