package codec

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v17/arrow"
)

// ShadowPrediction is a row of a message of a shadow: what a readout that does not
// answer says of a prediction, and what the one that answers has said.
type ShadowPrediction struct {
	Prediction           // the shadow's; its Readout is the shadow's name
	Active        int32  // the class of the readout that answers
	ActiveReadout string // its name
	Began         int64  // time of the sequence's first sample, ns; NoTime: not known, or time went back in it
	Input         uint64 // the input message that led to the prediction
	Stored        int64  // when the server stored that, ns
}

// Names of the fields that messages of shadows have behind a prediction's.
const (
	fieldActive        = "active_class"
	fieldActiveReadout = "active_readout"
	fieldBegan         = "began"
	fieldInput         = "input"
	fieldStored        = "stored"
)

// ShadowEncoder writes messages of one shadow. It belongs to one goroutine.
type ShadowEncoder struct {
	predictions *PredictionEncoder
	active      string
	rows        []Prediction
}

// NewShadowEncoder returns an encoder of messages with this meta, whose First is the
// shadow's name. active is what field active_readout calls the readout that the job
// began with.
func NewShadowEncoder(meta PredictionMeta, active string) (*ShadowEncoder, error) {
	e, err := newPredictionEncoder(meta,
		arrow.Field{Name: fieldActive, Type: arrow.PrimitiveTypes.Int32},
		arrow.Field{Name: fieldActiveReadout, Type: arrow.BinaryTypes.String},
		arrow.Field{Name: fieldBegan, Type: timestampNS, Nullable: true},
		arrow.Field{Name: fieldInput, Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: fieldStored, Type: timestampNS, Nullable: true},
	)
	if err != nil {
		return nil, err
	}
	return &ShadowEncoder{predictions: e, active: active}, nil
}

// Encode writes p as one message, valid until the next call.
func (e *ShadowEncoder) Encode(p []ShadowPrediction) ([]byte, error) {
	e.rows = e.rows[:0]
	for i := range p {
		e.rows = append(e.rows, p[i].Prediction)
	}
	if err := e.predictions.begin(e.rows); err != nil {
		return nil, err
	}
	t := e.predictions.t
	t.column(len(p), func(i int) { t.u32(uint32(p[i].Active)) })
	if err := t.text(len(p), func(i int) string {
		if p[i].ActiveReadout == "" {
			return e.active
		}
		return p[i].ActiveReadout
	}); err != nil {
		return nil, err
	}
	t.times(len(p), func(i int) int64 { return p[i].Began })
	t.column(len(p), func(i int) { t.u64(p[i].Input) })
	t.times(len(p), func(i int) int64 { return p[i].Stored })
	return t.finish(), nil
}

// DecodeShadow reads a message of a shadow.
func DecodeShadow(payload []byte) (PredictionMeta, []ShadowPrediction, error) {
	r := predictionReader{more: shadowFields}
	var out []ShadowPrediction
	r.beyond = func(rb *recordBatch) error { return r.shadow(rb, &out) }
	if err := r.read(payload); err != nil {
		return PredictionMeta{}, nil, err
	}
	for i := range r.out {
		out[i].Prediction = r.out[i]
	}
	return r.meta, out, nil
}

// shadowFields are the fields behind a prediction's, and their types.
var shadowFields = []moreField{
	{fieldActive, dataType{kind: typeInt, num: int32s}, false},
	{fieldActiveReadout, dataType{kind: typeUtf8}, false},
	{fieldBegan, dataType{kind: typeTimestamp, unit: 3}, true},
	{fieldInput, dataType{kind: typeInt, num: uint64s}, false},
	{fieldStored, dataType{kind: typeTimestamp, unit: 3}, true},
}

// shadow appends what the rows of a record batch have behind a prediction's fields.
func (r *predictionReader) shadow(rb *recordBatch, out *[]ShadowPrediction) error {
	names, err := textsOf(rb, r.cols[fieldActiveReadout])
	if err != nil {
		return err
	}
	fixed, valid, err := r.fixed(rb)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		b := ShadowPrediction{
			Active: int32(binary.LittleEndian.Uint32(fixed[fieldActive][4*i:])),
			Began:  timeAt(fixed, valid, fieldBegan, i), Input: binary.LittleEndian.Uint64(fixed[fieldInput][8*i:]), Stored: timeAt(fixed, valid, fieldStored, i),
		}
		if b.ActiveReadout, err = names.plain(i); err != nil {
			return malformed("row %d, field %q: %v", len(*out), fieldActiveReadout, err)
		}
		if b.Active < 0 || int(b.Active) >= len(r.meta.Labels) {
			return malformed("row %d: active class %d, want 0 to %d: the message names %d labels", len(*out), b.Active, len(r.meta.Labels)-1, len(r.meta.Labels))
		}
		*out = append(*out, b)
	}
	return nil
}
