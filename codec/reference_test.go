package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// reference decodes a message of the tests with the Arrow library's reader: an
// implementation that shares nothing with ours.
func reference(t testing.TB, payload []byte, channels []string, policy NonFinite) *Batch {
	t.Helper()
	b := &Batch{}
	r, err := ipc.NewReader(bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for r.Next() {
		referenceRecord(t, r.Record(), channels, b)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	for i, f := range b.X {
		if d := float64(f); !math.IsNaN(d) && !math.IsInf(d, 0) {
			continue
		}
		b.Missing = append(b.Missing, int32(i))
		b.X[i] = float32(math.NaN())
		if policy == Zero {
			b.X[i] = 0
		}
	}
	return b
}

func referenceRecord(t testing.TB, rec arrow.Record, channels []string, b *Batch) {
	column := func(name string) arrow.Array {
		at := rec.Schema().FieldIndices(name)
		if len(at) == 0 {
			return nil
		}
		return rec.Column(at[0])
	}
	n := int(rec.NumRows())
	b.Rows += n
	for row := range n {
		for i, name := range channels {
			if col := column(name); col != nil {
				b.X = append(b.X, referenceNumber(t, col, row))
				continue
			}
			list := column("x").(*array.FixedSizeList)
			if list.IsNull(row) {
				b.X = append(b.X, float32(math.NaN()))
				continue
			}
			from, _ := list.ValueOffsets(row)
			b.X = append(b.X, referenceNumber(t, list.ListValues(), int(from)+i))
		}
		if col := column("ts"); col != nil {
			ns := int64(NoTime)
			if !col.IsNull(row) {
				ts := col.(*array.Timestamp).Value(row)
				ns = ts.ToTime(col.DataType().(*arrow.TimestampType).Unit).UnixNano()
			}
			b.Times = append(b.Times, ns)
		}
		if col := column("end"); col != nil {
			b.Ends = append(b.Ends, col.IsValid(row) && col.(*array.Boolean).Value(row))
		}
		if col := column("stream_id"); col != nil {
			name := col.ValueStr(row)
			at := slices.Index(b.Keys, name)
			if at < 0 {
				at = len(b.Keys)
				b.Keys = append(b.Keys, name)
			}
			b.Key = append(b.Key, int32(at))
		}
	}
}

func referenceNumber(t testing.TB, col arrow.Array, i int) float32 {
	if col.IsNull(i) {
		return float32(math.NaN())
	}
	switch col := col.(type) {
	case *array.Float16:
		return halfValue(col.Value(i).Uint16())
	case *array.Boolean:
		if col.Value(i) {
			return 1
		}
		return 0
	case *array.Float32:
		return col.Value(i)
	case *array.Float64:
		return float32(col.Value(i))
	case *array.Int8:
		return float32(col.Value(i))
	case *array.Uint8:
		return float32(col.Value(i))
	case *array.Int16:
		return float32(col.Value(i))
	case *array.Uint16:
		return float32(col.Value(i))
	case *array.Int32:
		return float32(col.Value(i))
	case *array.Uint32:
		return float32(col.Value(i))
	case *array.Int64:
		return float32(col.Value(i))
	case *array.Uint64:
		return float32(col.Value(i))
	}
	t.Fatalf("no reference for %s", col.DataType())
	return 0
}

// halfValue returns a number of half precision by its definition (IEEE 754).
func halfValue(bits uint16) float32 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 0x1f && fraction != 0:
		return float32(math.NaN())
	case exponent == 0x1f:
		return float32(math.Inf(int(sign)))
	case exponent == 0:
		return float32(math.Copysign(math.Ldexp(fraction/1024, -14), sign))
	}
	return float32(sign * math.Ldexp(1+fraction/1024, exponent-15))
}

// TestHalfPrecision reads all numbers of half precision, as a column and as a list.
func TestHalfPrecision(t *testing.T) {
	mem := memory.DefaultAllocator
	for _, list := range []bool{false, true} {
		field := arrow.Field{Name: "c", Type: arrow.FixedWidthTypes.Float16}
		if list {
			field = arrow.Field{Name: fieldList, Type: arrow.FixedSizeListOf(1, arrow.FixedWidthTypes.Float16)}
		}
		schema := arrow.NewSchema([]arrow.Field{field}, nil)
		rec := array.NewRecordBuilder(mem, schema)
		to, isColumn := rec.Field(0).(*array.Float16Builder)
		if !isColumn {
			to = rec.Field(0).(*array.FixedSizeListBuilder).ValueBuilder().(*array.Float16Builder)
		}
		for bits := range 1 << 16 {
			if l, ok := rec.Field(0).(*array.FixedSizeListBuilder); ok {
				l.Append(true)
			}
			to.Append(float16.FromBits(uint16(bits)))
		}
		var out bytes.Buffer
		w := ipc.NewWriter(&out, ipc.WithSchema(schema))
		if err := cmp.Or(w.Write(rec.NewRecord()), w.Close()); err != nil {
			t.Fatal(err)
		}
		d, err := NewDecoder(Schema{Channels: []string{"c"}, NonFinite: Hold})
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		if err := d.Decode(out.Bytes(), &b); err != nil || b.Rows != 1<<16 {
			t.Fatalf("%d rows (%v)", b.Rows, err)
		}
		for bits, got := range b.X {
			want := halfValue(uint16(bits))
			if math.IsInf(float64(want), 0) { // held
				want = float32(math.NaN())
			}
			if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
				t.Fatalf("%#04x is %v, want %v", bits, got, want)
			}
		}
	}
}

// diff describes the difference of two batches, "" if equal; NaN equals NaN.
func diff(got, want *Batch) string {
	bits := func(x []float32) (u []uint32) {
		for _, f := range x {
			if f != f {
				u = append(u, 0x7fc00000)
				continue
			}
			u = append(u, math.Float32bits(f))
		}
		return u
	}
	switch {
	case got.Rows != want.Rows:
		return fmt.Sprintf("rows %d, want %d", got.Rows, want.Rows)
	case !slices.Equal(bits(got.X), bits(want.X)):
		return fmt.Sprintf("X\n%v, want\n%v", got.X, want.X)
	case !slices.Equal(got.Times, want.Times):
		return fmt.Sprintf("times\n%v, want\n%v", got.Times, want.Times)
	case !slices.Equal(got.Ends, want.Ends):
		return fmt.Sprintf("ends %v, want %v", got.Ends, want.Ends)
	case !slices.Equal(got.Keys, want.Keys) || !slices.Equal(got.Key, want.Key):
		return fmt.Sprintf("keys %v %v, want %v %v", got.Keys, got.Key, want.Keys, want.Key)
	case !slices.Equal(got.Missing, want.Missing):
		return fmt.Sprintf("missing %v, want %v", got.Missing, want.Missing)
	}
	return ""
}
