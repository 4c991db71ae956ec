package codec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var testChannels = []string{"ax", "ay", "az"}

// numberTypes are the types a channel may come in.
var numberTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64, arrow.FixedWidthTypes.Float16,
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Uint16,
	arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.FixedWidthTypes.Boolean,
}

// streamTypes are the types a stream id may come in.
var streamTypes = []arrow.DataType{
	arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String},
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
	arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.BinaryTypes.StringView,
}

// extraFields must be skipped, whatever their types.
var extraFields = []arrow.Field{
	{Name: "note", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	{Name: "pos", Type: arrow.StructOf(arrow.Field{Name: "ax", Type: arrow.PrimitiveTypes.Float64}, arrow.Field{Name: "l", Type: arrow.BinaryTypes.LargeBinary}), Nullable: true},
	{Name: "none", Type: arrow.Null, Nullable: true},
	{Name: "view", Type: arrow.BinaryTypes.StringView, Nullable: true},
	{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "pair", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int16), Nullable: true},
	{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
	{Name: "runs", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)},
	{Name: "kind", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Float64}, Nullable: true},
	{Name: "dense", Type: arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, []arrow.UnionTypeCode{0})},
	{Name: "sparse", Type: arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}}, []arrow.UnionTypeCode{0})},
	{Name: "fixed", Type: &arrow.FixedSizeBinaryType{ByteWidth: 5}, Nullable: true},
	{Name: "dec", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
	{Name: "since", Type: arrow.FixedWidthTypes.Duration_s, Nullable: true},
	{Name: "mdn", Type: arrow.FixedWidthTypes.MonthDayNanoInterval, Nullable: true},
}

// messageSpec describes a random message for writeMessage.
type messageSpec struct {
	fields  []arrow.Field
	rows    []int   // of each record batch
	nulls   float64 // share of nulls in nullable fields
	odd     float64 // share of NaN and infinities in float samples
	slice   int     // rows cut off the front before writing
	options []ipc.Option
}

// sampleFields are the channels as columns of the given types.
func sampleFields(types ...arrow.DataType) (fields []arrow.Field) {
	for i, name := range testChannels {
		fields = append(fields, arrow.Field{Name: name, Type: types[i%len(types)], Nullable: true})
	}
	return fields
}

func listField(elem arrow.DataType) arrow.Field {
	return arrow.Field{Name: "x", Type: arrow.FixedSizeListOf(int32(len(testChannels)), elem), Nullable: true}
}

// writeMessage writes a message with the Arrow library.
func writeMessage(t testing.TB, r *rand.Rand, s messageSpec) []byte {
	t.Helper()
	schema := arrow.NewSchema(s.fields, nil)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(slices.Clone(s.options), ipc.WithSchema(schema))...)
	for _, rows := range s.rows {
		cut := s.slice
		if rows == 0 {
			cut = 0 // the library fails to write some empty slices
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for range rows + cut {
			for i, f := range b.Fields() {
				field := s.fields[i]
				// Ids are not null here: null ids have their own error.
				null := field.Nullable && field.Name != fieldStream && r.Float64() < s.nulls
				appendRandom(t, r, f, null, s.odd)
			}
		}
		rec := b.NewRecord()
		rec = rec.NewSlice(int64(cut), int64(cut+rows))
		if err := w.Write(rec); err != nil {
			t.Fatalf("%v, slice %d, rows %d: %v", s.fields, cut, rows, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func appendRandom(t testing.TB, r *rand.Rand, b array.Builder, null bool, odd float64) {
	if null {
		b.AppendNull()
		return
	}
	number := r.NormFloat64() * 50
	if r.Float64() < odd {
		number = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300}[r.IntN(4)]
	}
	name := fmt.Sprintf("device-%d", r.IntN(7))
	switch b := b.(type) {
	case *array.Float16Builder:
		half := float16.FromBits(uint16(r.Uint32()) &^ 0x4000) // below 2, subnormals too
		if r.IntN(4) > 0 || math.IsNaN(number) || math.IsInf(number, 0) {
			half = float16.New(float32(number))
		}
		b.Append(half)
	case *array.Float32Builder:
		b.Append(float32(number))
	case *array.Float64Builder:
		b.Append(number)
	case *array.Int8Builder:
		b.Append(int8(r.Uint32()))
	case *array.Uint8Builder:
		b.Append(uint8(r.Uint32()))
	case *array.Int16Builder:
		b.Append(int16(r.Uint32()))
	case *array.Uint16Builder:
		b.Append(uint16(r.Uint32()))
	case *array.Int32Builder:
		b.Append(int32(r.Uint32()) >> r.IntN(30))
	case *array.Uint32Builder:
		b.Append(r.Uint32() >> r.IntN(30))
	case *array.Int64Builder:
		b.Append(int64(r.Uint64()) >> r.IntN(62))
	case *array.Uint64Builder:
		b.Append(r.Uint64() >> r.IntN(62))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(int64(r.Int32())))
	case *array.BooleanBuilder:
		b.Append(r.IntN(3) == 0)
	case *array.StringBuilder:
		b.Append(name)
	case *array.LargeStringBuilder:
		b.Append(name)
	case *array.StringViewBuilder:
		if r.IntN(2) == 0 {
			name += " of the north wing" // more than the 12 bytes a view has room for
		}
		b.Append(name + " with more text than fits a view")
	case *array.BinaryDictionaryBuilder:
		if err := b.AppendString(name); err != nil {
			t.Fatal(err)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range b.Type().(*arrow.FixedSizeListType).Len() {
			appendRandom(t, r, b.ValueBuilder(), false, odd)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(3) {
			appendRandom(t, r, b.ValueBuilder(), false, 0)
		}
	default:
		b.AppendEmptyValue()
	}
}
