package codec

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
)

// extra is a nullable field that only some models fill. A message has it where one of
// its predictions has a value, behind the fields that all predictions have. So the
// messages of other models stay as they were, bit for bit, and who does not know the
// field reads the others.
type extra struct {
	field arrow.Field
	typ   dataType
	has   func(p *Prediction) bool // there is a value
	// write fills in the field's nodes and buffers.
	write func(t *template, p []Prediction)
	// read sets the values of the predictions of one record batch, which has rows.
	read func(r *predictionReader, rb *recordBatch, c *column, to []Prediction) error
}

const (
	fieldSet      = "set"
	fieldNovelty  = "novelty"
	fieldNoveltyP = "novelty_p"
	fieldChange   = "change"
	fieldValue    = "value"
	fieldLow      = "low"
	fieldHigh     = "high"
	fieldInputs   = "inputs"
)

// extras are in the order of their fields.
var extras = [...]extra{
	{
		field: arrow.Field{Name: fieldSet, Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int32), Nullable: true},
		typ:   dataType{kind: typeList, num: int32s},
		has:   func(p *Prediction) bool { return p.Set != nil },
		write: (*template).sets,
		read:  (*predictionReader).sets,
	},
	floatField(fieldNovelty, hasNovelty, func(p *Prediction) *float32 { return &p.Novelty }, alone),
	floatField(fieldNoveltyP, hasNovelty, func(p *Prediction) *float32 { return &p.NoveltyP }, alone),
	floatField(fieldChange, func(p *Prediction) bool { return p.Change != 0 }, func(p *Prediction) *float32 { return &p.Change }, alone),
	numberField(fieldValue, func(p *Prediction) *float32 { return &p.Number.Value }),
	numberField(fieldLow, func(p *Prediction) *float32 { return &p.Number.Low }),
	numberField(fieldHigh, func(p *Prediction) *float32 { return &p.Number.High }),
	{
		field: arrow.Field{Name: fieldInputs, Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32), Nullable: true},
		typ:   dataType{kind: typeList, num: float32s},
		has:   func(p *Prediction) bool { return p.Inputs != nil },
		write: (*template).inputs,
		read:  (*predictionReader).inputs,
	},
}

// hasNovelty: a p-value is never 0.
func hasNovelty(p *Prediction) bool { return p.NoveltyP != 0 }

// alone: a field's rows are there or not whatever other fields say.
func alone(*Prediction, bool) bool { return true }

// floatField is a field of float32 that some predictions have. agrees says whether its
// being there in a row is what the fields before it say.
func floatField(name string, has func(p *Prediction) bool, of func(p *Prediction) *float32, agrees func(p *Prediction, there bool) bool) extra {
	return extra{
		field: arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		typ:   dataType{kind: typeFloatingPoint, num: float32s},
		has:   has,
		write: func(t *template, p []Prediction) {
			t.nullable(len(p), func(i int) bool { return has(&p[i]) })
			t.open()
			for i := range p {
				t.f32(*of(&p[i]))
			}
			t.close()
		},
		read: func(r *predictionReader, rb *recordBatch, c *column, to []Prediction) error {
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
				if !agrees(&to[i], there) {
					return malformed("row %d, field %q: want a value where field %q has one", i, c.name, fieldValue)
				}
				if there {
					*of(&to[i]) = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
				}
			}
			return nil
		},
	}
}

// numberField is a field of a part of a prediction's number. A row has all three or none.
func numberField(name string, of func(p *Prediction) *float32) extra {
	has := func(p *Prediction) bool { return p.Number.Known }
	e := floatField(name, has, of, func(p *Prediction, there bool) bool {
		if name == fieldValue {
			p.Number.Known = there
		}
		return there == p.Number.Known
	})
	values := e.read
	e.read = func(r *predictionReader, rb *recordBatch, c *column, to []Prediction) error {
		for _, other := range []string{fieldValue, fieldLow, fieldHigh} {
			if r.cols[other] == nil {
				return mismatch("field %q without field %q: want value, low and high, or none of them", c.name, other)
			}
		}
		return values(r, rb, c, to)
	}
	return e
}

// extrasOf says which extras a message of these predictions has, a bit each.
func extrasOf(p []Prediction) (mask uint) {
	for k := range extras {
		for i := range p {
			if extras[k].has(&p[i]) {
				mask |= 1 << k
				break
			}
		}
	}
	return mask
}

// nullable writes the node and the bitmap of a field; there says which rows have a
// value.
func (t *template) nullable(rows int, there func(i int) bool) {
	nulls := 0
	for i := range rows {
		if !there(i) {
			nulls++
		}
	}
	t.node(rows, nulls)
	if nulls > 0 {
		t.bits(rows, there)
	} else {
		t.empty()
	}
}

// list writes a field of lists: offsets into the values of all rows, n of row i, which
// values writes. has says which rows have a list.
func (t *template) list(rows int, has func(i int) bool, n func(i int) int, values func(i int)) {
	t.nullable(rows, has)
	t.open()
	total := 0
	t.u32(0)
	for i := range rows {
		total += n(i)
		t.u32(uint32(total))
	}
	t.close()
	t.node(total, 0)
	t.empty()
	t.open()
	for i := range rows {
		values(i)
	}
	t.close()
}

// sets writes the field set: class indexes.
func (t *template) sets(p []Prediction) {
	t.list(len(p), func(i int) bool { return p[i].Set != nil }, func(i int) int { return len(p[i].Set) }, func(i int) {
		for _, class := range p[i].Set {
			t.u32(uint32(class))
		}
	})
}

// inputs writes the field inputs.
func (t *template) inputs(p []Prediction) {
	t.list(len(p), func(i int) bool { return p[i].Inputs != nil }, func(i int) int { return len(p[i].Inputs) }, func(i int) {
		for _, v := range p[i].Inputs {
			t.f32(v)
		}
	})
}

// lists are the rows of a field of lists.
type lists struct {
	valid   []byte // nil: all rows have one
	offsets []byte
	data    []byte // 32 bits of each value
}

// has reports whether row i has a list; of are its first value and the one behind its last.
func (l *lists) has(i int) bool { return l.valid == nil || bit(l.valid, i) }

func (l *lists) of(i int) (from, to int) {
	return int(binary.LittleEndian.Uint32(l.offsets[4*i:])), int(binary.LittleEndian.Uint32(l.offsets[4*i+4:]))
}

// value is one of the values.
func (l *lists) value(k int) uint32 { return binary.LittleEndian.Uint32(l.data[4*k:]) }

// lists reads a field of lists, and checks all offsets. values are those of all rows.
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

// sets reads the field set.
func (r *predictionReader) sets(rb *recordBatch, c *column, to []Prediction) error {
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
		to[i].Set = values[from:end:end]
		for k, class := range to[i].Set {
			if class < 0 || int(class) >= len(r.meta.Labels) || k > 0 && class <= to[i].Set[k-1] {
				return malformed("row %d, field %q: classes %v, want ascending ones of 0 to %d: the message names %d labels", i, c.name, to[i].Set, len(r.meta.Labels)-1, len(r.meta.Labels))
			}
		}
	}
	return nil
}

// inputs reads the field inputs.
func (r *predictionReader) inputs(rb *recordBatch, c *column, to []Prediction) error {
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
			to[i].Inputs = values[from:end:end]
		}
	}
	return nil
}

// elements checks that a list's elements are at least so many, none of them null.
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
