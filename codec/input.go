package codec

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// InputLayout is the arrangement of samples in messages of an InputEncoder.
type InputLayout string

// The layouts. The empty string means Columns.
const (
	Columns InputLayout = "columns" // one float32 field per channel
	List    InputLayout = "list"    // one field x: FixedSizeList<float32>[channels]
)

// InputOptions select the content of an InputEncoder's messages.
type InputOptions struct {
	Layout InputLayout
	Times  bool // field ts from Batch.Times
	Ends   bool // field end from Batch.Ends
	Keys   bool // field stream_id: utf8, from Batch.Keys and Batch.Key
}

// InputEncoder writes input messages of one schema. An InputEncoder belongs to
// one goroutine.
type InputEncoder struct {
	channels []string
	opts     InputOptions
	t        *template
}

var timestampNS = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}

// NewInputEncoder returns an encoder of messages with these channels, under the
// rules of Schema.Channels.
func NewInputEncoder(channels []string, opts InputOptions) (*InputEncoder, error) {
	if err := checkChannels(channels); err != nil {
		return nil, err
	}
	var fields []arrow.Field
	add := func(name string, t arrow.DataType) { fields = append(fields, arrow.Field{Name: name, Type: t}) }
	if opts.Keys {
		add(fieldStream, arrow.BinaryTypes.String)
	}
	if opts.Times {
		fields = append(fields, arrow.Field{Name: fieldTime, Type: timestampNS, Nullable: true})
	}
	if opts.Ends {
		add(fieldEnd, arrow.FixedWidthTypes.Boolean)
	}
	switch opts.Layout {
	case "", Columns:
		for _, name := range channels {
			add(name, arrow.PrimitiveTypes.Float32)
		}
	case List:
		add(fieldList, arrow.FixedSizeListOfNonNullable(int32(len(channels)), arrow.PrimitiveTypes.Float32))
	default:
		return nil, mismatch("input layout %q, want %q or %q", opts.Layout, Columns, List)
	}
	meta := arrow.NewMetadata([]string{"eusn.schema", "eusn.version"}, []string{"input", messageVersion})
	t, err := newTemplate(arrow.NewSchema(fields, &meta))
	if err != nil {
		return nil, err
	}
	return &InputEncoder{channels: slices.Clone(channels), opts: opts, t: t}, nil
}

// Encode writes b as one message, valid until the next call. Every slice that
// the options name must have one entry per row. X is written unchanged: NaN
// stays NaN, and Missing is ignored.
func (e *InputEncoder) Encode(b *Batch) ([]byte, error) {
	if err := e.check(b); err != nil {
		return nil, err
	}
	t := e.t
	t.begin(b.Rows)
	if e.opts.Keys {
		if err := t.text(b.Rows, func(i int) string { return b.Keys[b.Key[i]] }); err != nil {
			return nil, err
		}
	}
	if e.opts.Times {
		t.times(b.Rows, func(i int) int64 { return b.Times[i] })
	}
	if e.opts.Ends {
		t.node(b.Rows, 0)
		t.empty()
		t.bits(b.Rows, func(i int) bool { return b.Ends[i] })
	}
	if e.opts.Layout == List {
		t.node(b.Rows, 0)
		t.empty()
		t.floats(b.X, 0, 1)
	} else {
		for c := range e.channels {
			t.floats(b.X, c, len(e.channels))
		}
	}
	return t.finish(), nil
}

// check compares the lengths of b's slices with its rows.
func (e *InputEncoder) check(b *Batch) error {
	length := func(what string, got, want int) error {
		if got != want {
			return mismatch("batch of %d rows has %d %s, want %d", b.Rows, got, what, want)
		}
		return nil
	}
	err := length("samples in X", len(b.X), b.Rows*len(e.channels))
	if err == nil && e.opts.Times {
		err = length("times", len(b.Times), b.Rows)
	}
	if err == nil && e.opts.Ends {
		err = length("ends", len(b.Ends), b.Rows)
	}
	if err != nil || !e.opts.Keys {
		return err
	}
	for i, k := range b.Key {
		if k < 0 || int(k) >= len(b.Keys) {
			return mismatch("row %d: key %d of %d", i, k, len(b.Keys))
		}
	}
	return length("keys", len(b.Key), b.Rows)
}

// floats writes a float32 field without nulls of every stride-th value of x.
func (t *template) floats(x []float32, from, stride int) {
	rows := (len(x) - from + stride - 1) / stride
	if len(x) == 0 {
		rows = 0
	}
	t.node(rows, 0)
	t.empty()
	t.open()
	for i := from; i < len(x); i += stride {
		t.f32(x[i])
	}
	t.close()
}

// times writes a nullable timestamp field; NoTime is null.
func (t *template) times(rows int, at func(i int) int64) {
	nulls := 0
	for i := range rows {
		if at(i) == NoTime {
			nulls++
		}
	}
	t.node(rows, nulls)
	if nulls > 0 {
		t.bits(rows, func(i int) bool { return at(i) != NoTime })
	} else {
		t.empty()
	}
	t.open()
	for i := range rows {
		t.u64(uint64(at(i)))
	}
	t.close()
}
