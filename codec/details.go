package codec

import (
	"encoding/binary"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// Details are the columns after a prediction's columns, in a message of a shadow and
// in a message of predictions with features.
type Details struct {
	Began  int64  // time of the sequence's first sample, ns; NoTime: unknown, or time went back in the sequence
	Input  uint64 // the input message of the prediction
	Stored int64  // when the server stored the input message, ns

	Active        int32  // messages of shadows: the class of the readout that answers
	ActiveReadout string // messages of shadows: the name of the readout that answers

	Number   uint64    // messages with features: of the prediction in its partition, from 1
	Samples  int64     // messages with features: length of the sequence, as received
	Features []float32 // messages with features: the features of the prediction
}

// detail is a column of Details: a number, or a text.
type detail struct {
	name  string
	arrow arrow.DataType
	typ   dataType
	null  bool // NoTime is null
	get   func(*Details) uint64
	set   func(*Details, uint64)
	text  func(*Details) *string
}

// Names of the columns that distinguish messages with details.
const (
	fieldActive   = "active_class"
	fieldFeatures = "features"
)

// placeDetails are the last numbers in both kinds of messages.
var placeDetails = []detail{
	{name: "began", arrow: timestampNS, typ: timeType, null: true, get: func(d *Details) uint64 { return uint64(d.Began) }, set: func(d *Details, v uint64) { d.Began = int64(v) }},
	{name: "input", arrow: arrow.PrimitiveTypes.Uint64, typ: intType(uint64s), get: func(d *Details) uint64 { return d.Input }, set: func(d *Details, v uint64) { d.Input = v }},
	{name: "stored", arrow: timestampNS, typ: timeType, null: true, get: func(d *Details) uint64 { return uint64(d.Stored) }, set: func(d *Details, v uint64) { d.Stored = int64(v) }},
}

// shadowDetails are the details in a message of a shadow.
var shadowDetails = append([]detail{
	{name: fieldActive, arrow: arrow.PrimitiveTypes.Int32, typ: intType(int32s), get: func(d *Details) uint64 { return uint64(uint32(d.Active)) }, set: func(d *Details, v uint64) { d.Active = int32(uint32(v)) }},
	{name: "active_readout", arrow: arrow.BinaryTypes.String, typ: dataType{kind: typeUtf8}, text: func(d *Details) *string { return &d.ActiveReadout }},
}, placeDetails...)

// featureDetails are the details in a message with features, before the features.
var featureDetails = append([]detail{
	{name: "number", arrow: arrow.PrimitiveTypes.Uint64, typ: intType(uint64s), get: func(d *Details) uint64 { return d.Number }, set: func(d *Details, v uint64) { d.Number = v }},
	{name: "samples", arrow: arrow.PrimitiveTypes.Int64, typ: intType(int64s), get: func(d *Details) uint64 { return uint64(d.Samples) }, set: func(d *Details, v uint64) { d.Samples = int64(v) }},
}, placeDetails...)

var timeType = dataType{kind: typeTimestamp, unit: 3}

func intType(n number) dataType { return dataType{kind: typeInt, num: n} }

// maxFeatures is far beyond any network.
const maxFeatures = 1 << 24

// useDetails adds the fields of the details selected by the meta.
func (e *PredictionEncoder) useDetails(meta *PredictionMeta) error {
	switch {
	case meta.Features < 0 || meta.Features > maxFeatures:
		return mismatch("%d features, want 0 to %d", meta.Features, maxFeatures)
	case meta.Shadow && meta.Features > 0:
		return mismatch("%d features in a message of a shadow, want none", meta.Features)
	case meta.Shadow:
		e.details = shadowDetails
	case meta.Features > 0:
		e.details, e.features = featureDetails, meta.Features
	}
	for _, f := range e.details {
		e.more = append(e.more, arrow.Field{Name: f.name, Type: f.arrow, Nullable: f.null})
	}
	if e.features > 0 {
		e.more = append(e.more, arrow.Field{Name: fieldFeatures, Type: arrow.FixedSizeListOfNonNullable(int32(e.features), arrow.PrimitiveTypes.Float32)})
	}
	return nil
}

// checkDetails checks that predictions have the details of the encoder's messages.
func (e *PredictionEncoder) checkDetails(p []Prediction) error {
	for i := range p {
		switch d := p[i].Details; {
		case e.details == nil:
			return nil
		case d == nil:
			return mismatch("prediction %d has no details", i)
		case len(d.Features) != e.features:
			return mismatch("prediction %d has %d features, want %d", i, len(d.Features), e.features)
		}
	}
	return nil
}

// writeDetails writes the fields of details.
func (e *PredictionEncoder) writeDetails(p []Prediction) error {
	t, n := e.t, len(p)
	for _, f := range e.details {
		switch {
		case f.text != nil:
			if err := t.text(n, func(i int) string { return *f.text(p[i].Details) }); err != nil {
				return err
			}
		case f.null:
			t.times(n, func(i int) int64 { return int64(f.get(p[i].Details)) })
		case f.typ.num.width() == 4:
			t.column(n, func(i int) { t.u32(uint32(f.get(p[i].Details))) })
		default:
			t.column(n, func(i int) { t.u64(f.get(p[i].Details)) })
		}
	}
	if e.features > 0 {
		t.node(n, 0)
		t.empty()
		t.column(n*e.features, func(i int) { t.f32(p[i/e.features].Details.Features[i%e.features]) })
	}
	return nil
}

// detailNames are the names of all columns of details.
var detailNames = func() (names []string) {
	for _, f := range slices.Concat(shadowDetails, featureDetails) {
		names = append(names, f.name)
	}
	return append(names, fieldFeatures)
}()

// findDetails finds the details of a message, and checks their types.
func (r *predictionReader) findDetails(c *collector) error {
	switch features := c.want[fieldFeatures]; {
	case c.want[fieldActive] != nil:
		r.meta.Shadow, r.details = true, shadowDetails
	case features != nil:
		if !features.typ.is(typeFixedSizeList) || features.typ.num != float32s || features.typ.size < 1 {
			return features.wants("fixed_size_list<float32>[1 or more]")
		}
		r.meta.Features, r.details = features.typ.size, featureDetails
	}
	for _, f := range r.details {
		col := c.want[f.name]
		if col == nil {
			return mismatch("field %q: want it, got %s", f.name, c.seen())
		}
		if col.typ != f.typ {
			return col.wants(f.typ.String())
		}
	}
	return nil
}

// readDetails sets the details of the predictions of a record batch.
func (r *predictionReader) readDetails(rb *recordBatch, to []Prediction) error {
	if r.details == nil {
		return nil
	}
	rows := make([]Details, len(to))
	for _, f := range r.details {
		if err := f.read(rb, r.cols[f.name], rows); err != nil {
			return err
		}
	}
	features, n := []float32(nil), r.meta.Features
	if n > 0 {
		var err error
		if features, err = rb.floats(r.cols[fieldFeatures]); err != nil {
			return err
		}
	}
	for i := range to {
		d := &rows[i]
		if n > 0 {
			d.Features = features[i*n : (i+1)*n : (i+1)*n]
		}
		if d.Active < 0 || r.meta.Shadow && int(d.Active) >= len(r.meta.Labels) {
			return malformed("row %d of a record batch: active class %d, want 0 to %d: the message names %d labels", i, d.Active, len(r.meta.Labels)-1, len(r.meta.Labels))
		}
		to[i].Details = d
	}
	return nil
}

// read sets the column of all rows of a record batch.
func (f *detail) read(rb *recordBatch, c *column, rows []Details) error {
	if f.text != nil {
		all, err := textsOf(rb, c)
		if err != nil {
			return err
		}
		for i := range rows {
			if *f.text(&rows[i]), err = all.plain(i); err != nil {
				return malformed("row %d of a record batch, field %q: %v", i, f.name, err)
			}
		}
		return nil
	}
	values, err := rb.numbers(c, f.null)
	if err != nil {
		return err
	}
	for i := range rows {
		f.set(&rows[i], values.at(i))
	}
	return nil
}

// numbers are the values of a column with one number or time per row.
type numbers struct {
	data, valid []byte // valid: nil if no value is null
	width       int
}

// numbers reads a column with one number or time per row.
func (rb *recordBatch) numbers(c *column, nullable bool) (n numbers, err error) {
	if nullable {
		n.valid, err = rb.bitmap(c, 0, 0, 1)
	} else {
		err = noNulls(rb, c, 0, 1)
	}
	if err != nil {
		return n, err
	}
	n.width = 8 // of a time
	if c.typ.num != notNumber {
		n.width = c.typ.num.width()
	}
	n.data, err = rb.buffer(c, 1, rb.rows*n.width)
	return n, err
}

// known reports whether row i has a value.
func (n *numbers) known(i int) bool { return n.valid == nil || bit(n.valid, i) }

// at returns the bits of the value of row i; NoTime for null.
func (n *numbers) at(i int) uint64 {
	switch {
	case !n.known(i):
		return 1 << 63 // NoTime
	case n.width == 4:
		return uint64(binary.LittleEndian.Uint32(n.data[4*i:]))
	}
	return binary.LittleEndian.Uint64(n.data[8*i:])
}

// floats reads a column of float32 lists of one length; nil if the message has none.
func (rb *recordBatch) floats(c *column) ([]float32, error) {
	if c == nil {
		return nil, nil
	}
	if err := noNulls(rb, c, 0, 1); err != nil {
		return nil, err
	}
	if err := noNulls(rb, c, 1, c.typ.size); err != nil {
		return nil, err
	}
	data, err := rb.buffer(c, 2, 4*rb.rows*c.typ.size)
	if err != nil {
		return nil, err
	}
	all := make([]float32, rb.rows*c.typ.size)
	gatherFloat32(all, 1, data)
	return all, nil
}
