package codec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func newDecoder(t testing.TB, policy NonFinite) *Decoder {
	t.Helper()
	d, err := NewDecoder(Schema{Channels: testChannels, NonFinite: policy})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// randomSpec draws a message of any form the format allows.
func randomSpec(r *rand.Rand) messageSpec {
	pick := func(types []arrow.DataType) arrow.DataType { return types[r.IntN(len(types))] }
	var s messageSpec
	if r.IntN(2) == 0 {
		s.fields = sampleFields(pick(numberTypes), pick(numberTypes), pick(numberTypes))
	} else {
		s.fields = []arrow.Field{listField(pick(numberTypes))}
	}
	if r.IntN(2) == 0 {
		unit := arrow.TimeUnit(r.IntN(4))
		s.fields = append(s.fields, arrow.Field{Name: "ts", Type: &arrow.TimestampType{Unit: unit}, Nullable: true})
	}
	if r.IntN(2) == 0 {
		s.fields = append(s.fields, arrow.Field{Name: "end", Type: arrow.FixedWidthTypes.Boolean, Nullable: true})
	}
	if r.IntN(2) == 0 {
		s.fields = append(s.fields, arrow.Field{Name: "stream_id", Type: pick(streamTypes), Nullable: true})
	}
	for range r.IntN(4) {
		f := extraFields[r.IntN(len(extraFields))]
		if !slices.ContainsFunc(s.fields, func(g arrow.Field) bool { return g.Name == f.Name }) {
			s.fields = append(s.fields, f)
		}
	}
	r.Shuffle(len(s.fields), func(i, j int) { s.fields[i], s.fields[j] = s.fields[j], s.fields[i] })
	for range r.IntN(4) {
		s.rows = append(s.rows, r.IntN(300)*r.IntN(2)+r.IntN(10))
	}
	s.nulls, s.odd = []float64{0, .1, 1}[r.IntN(3)], []float64{0, .05}[r.IntN(2)]
	s.slice = []int{0, 1, 8, 13}[r.IntN(4)]
	if slices.ContainsFunc(s.fields, func(f arrow.Field) bool { _, union := f.Type.(arrow.UnionType); return union }) {
		s.slice = 0 // the library fails to write slices of unions
	}
	s.options = [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}, {ipc.WithDictionaryDeltas(true)}}[r.IntN(4)]
	return s
}

// TestDecodeEqualsLibrary compares the decoder with the Arrow library's reader
// on random valid messages of every form. One decoder reads all messages, so
// earlier messages leave plans, keys and buffers.
func TestDecodeEqualsLibrary(t *testing.T) {
	hold, zero := newDecoder(t, Hold), newDecoder(t, Zero)
	var b Batch
	forms := map[string]int{}
	for seed := range uint64(3000) {
		r := newRand(seed)
		s := randomSpec(r)
		payload := writeMessage(t, r, s)
		for policy, d := range map[NonFinite]*Decoder{Hold: hold, Zero: zero} {
			want := reference(t, payload, testChannels, policy)
			if err := d.Decode(payload, &b); err != nil {
				t.Fatalf("seed %d, %v: %v", seed, s.fields, err)
			}
			if d := diff(&b, want); d != "" {
				t.Fatalf("seed %d, %v: %s", seed, s.fields, d)
			}
			if want.Rows > 0 {
				for _, f := range s.fields {
					forms[f.Name+" "+f.Type.String()]++
				}
			}
		}
	}
	for _, f := range extraFields {
		if forms[f.Name+" "+f.Type.String()] == 0 {
			t.Errorf("no message had the field %s", f)
		}
	}
	for _, typ := range streamTypes {
		if forms["stream_id "+typ.String()] == 0 {
			t.Errorf("no message had stream ids of type %s", typ)
		}
	}
	for _, typ := range numberTypes {
		if forms["ax "+typ.String()] == 0 || forms["x "+listField(typ).Type.String()] == 0 {
			t.Errorf("no message had samples of type %s", typ)
		}
	}
}

// TestPayloadAlignment: payloads of NATS messages begin at any address.
func TestPayloadAlignment(t *testing.T) {
	r := newRand(5)
	payload := writeMessage(t, r, messageSpec{fields: append(sampleFields(numberTypes...), extraFields[0]), rows: []int{50}})
	d := newDecoder(t, Hold)
	var b Batch
	want := reference(t, payload, testChannels, Hold)
	for shift := range 8 {
		moved := append(make([]byte, shift), payload...)[shift:]
		if err := d.Decode(moved, &b); err != nil {
			t.Fatal(err)
		}
		if d := diff(&b, want); d != "" {
			t.Errorf("shifted by %d: %s", shift, d)
		}
	}
}

func TestNonFinitePolicies(t *testing.T) {
	f32 := arrow.PrimitiveTypes.Float32
	for _, nulls := range []float64{0, 1} {
		for _, fields := range [][]arrow.Field{sampleFields(f32), {listField(f32)}} {
			payload := writeMessage(t, newRand(1), messageSpec{fields: fields, rows: []int{3, 4}, nulls: nulls, odd: 1 - nulls})
			var b Batch
			err := newDecoder(t, "").Decode(payload, &b)
			if !errors.Is(err, ErrNonFinite) || errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v, want ErrNonFinite", err)
			}
			if want := `codec: row 0, field "ax": `; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %q, want %q...", err, want)
			}
			if nulls == 1 && !strings.Contains(err.Error(), ": null, want a finite number") {
				t.Errorf("got %q, want it to say null", err)
			}
			if b.Rows != 0 || len(b.X) != 0 {
				t.Errorf("after an error the batch holds %d rows", b.Rows)
			}
		}
	}
}

// TestNonFiniteRow: the row counts over all record batches of the message.
func TestNonFiniteRow(t *testing.T) {
	e, err := NewInputEncoder(testChannels, InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 20*3)
	first, err := e.Encode(&Batch{Rows: 20, X: x})
	if err != nil {
		t.Fatal(err)
	}
	first = slices.Clone(first)
	x[17*3+1] = nan
	second, err := e.Encode(&Batch{Rows: 20, X: x})
	if err != nil {
		t.Fatal(err)
	}
	parts := split(t, second)
	payload := slices.Concat(first[:len(first)-8], parts[1], eos)
	var b Batch
	err = newDecoder(t, Reject).Decode(payload, &b)
	if want := `codec: row 37, field "ay": NaN, want a finite number`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSchemaErrors(t *testing.T) {
	f32, text := arrow.PrimitiveTypes.Float32, arrow.BinaryTypes.String
	field := func(name string, typ arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: typ} }
	with := func(more ...arrow.Field) []arrow.Field { return append(sampleFields(f32), more...) }
	many := make([]arrow.Field, 20)
	for i := range many {
		many[i] = field(fmt.Sprintf("f%d", i), f32)
	}
	for _, c := range []struct {
		fields []arrow.Field
		want   string
	}{
		{nil, `codec: field "ax": want it or a list "x", got no fields`},
		{sampleFields(f32)[:2], `codec: field "az": want it or a list "x", got "ax", "ay"`},
		{many, `codec: field "ax": want it or a list "x", got "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7" and 12 more`},
		{sampleFields(f32, text), `codec: field "ay": want float32, got utf8`},
		{sampleFields(streamTypes[2]), `codec: field "ax": want float32, got dictionary<int32, utf8>`},
		{[]arrow.Field{field("x", arrow.FixedSizeListOf(2, f32))}, `codec: field "x": want fixed_size_list<float32>[3], got fixed_size_list<float32>[2]`},
		{[]arrow.Field{field("x", arrow.FixedSizeListOf(3, text))}, `codec: field "x": want fixed_size_list<float32>[3], got fixed_size_list<another type>[3]`},
		{[]arrow.Field{field("x", arrow.ListOf(f32))}, `codec: field "x": want fixed_size_list<float32>[3], got list<float32>`},
		{with(field("ts", arrow.PrimitiveTypes.Int64)), `codec: field "ts": want timestamp, got int64`},
		{with(field("end", arrow.PrimitiveTypes.Uint8)), `codec: field "end": want bool, got uint8`},
		{with(field("stream_id", f32)), `codec: field "stream_id": want utf8, a dictionary of utf8, or an integer, got float32`},
		{with(field("ay", f32)), `codec: two fields are named "ay"`},
	} {
		payload := writeMessage(t, newRand(1), messageSpec{fields: c.fields, rows: []int{2}})
		err := newDecoder(t, Reject).Decode(payload, &Batch{})
		if !errors.Is(err, ErrSchema) || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestValueErrors(t *testing.T) {
	f32 := arrow.PrimitiveTypes.Float32
	id := arrow.Field{Name: "stream_id", Type: arrow.BinaryTypes.String, Nullable: true}
	seconds := arrow.Field{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Second}}
	dict := arrow.Field{Name: "stream_id", Type: streamTypes[2], Nullable: true}
	zero := func(b array.Builder) { b.AppendEmptyValue() }
	for _, c := range []struct {
		field  arrow.Field
		append func(array.Builder)
		want   string
	}{
		{id, func(b array.Builder) { b.AppendNull() }, `codec: row 0, field "stream_id": null, want a stream id`},
		{id, zero, `codec: row 0, field "stream_id": empty, want a stream id`},
		{id, func(b array.Builder) { b.(*array.StringBuilder).Append("a\xff") }, `codec: row 0, field "stream_id": not UTF-8, want a stream id`},
		{dict, func(b array.Builder) { b.(*array.BinaryDictionaryBuilder).AppendString("") }, `codec: row 0, field "stream_id": null, empty or not UTF-8, want a stream id`},
		{seconds, func(b array.Builder) { b.(*array.TimestampBuilder).Append(1 << 40) }, `codec: row 0, field "ts": time 1099511627776 does not fit nanoseconds since 1970`},
	} {
		payload := writeRow(t, append(sampleFields(f32), c.field), zero, zero, zero, c.append)
		err := newDecoder(t, Reject).Decode(payload, &Batch{})
		if !errors.Is(err, ErrMalformed) || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestMetadataVersion(t *testing.T) {
	e, err := NewInputEncoder(testChannels, InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := e.Encode(&Batch{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"input", "inpuT", `codec: metadata eusn.schema: want "input", got "inpuT"`},
		{"\x01\x00\x00\x001\x00", "\x01\x00\x00\x002\x00", `codec: metadata eusn.version: want "1", got "2"`},
	} {
		changed := strings.Replace(string(payload), c.old, c.new, 1)
		if changed == string(payload) {
			t.Fatalf("%q is not in the message", c.old)
		}
		if err := newDecoder(t, Reject).Decode([]byte(changed), &Batch{}); !errors.Is(err, ErrSchema) || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestBadSchema(t *testing.T) {
	for _, s := range []Schema{
		{},
		{Channels: []string{"a", "a"}},
		{Channels: []string{""}},
		{Channels: []string{"ts"}},
		{Channels: []string{"a"}, NonFinite: "drop"},
	} {
		if _, err := NewDecoder(s); !errors.Is(err, ErrSchema) {
			t.Errorf("%+v: got %v, want ErrSchema", s, err)
		}
	}
}
