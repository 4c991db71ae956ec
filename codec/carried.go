package codec

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v17/arrow"
)

// CarriedPrediction is a row of a message of predictions that carry their features.
type CarriedPrediction struct {
	Prediction
	Number   uint64    // of the prediction in its partition, from 1
	Samples  int64     // of the sequence, as they came in
	Began    int64     // time of the sequence's first sample, ns; NoTime: not known, or time went back in it
	Input    uint64    // the input message that led to the prediction
	Stored   int64     // when the server stored that, ns
	Features []float32 // what the readout has read
}

// Names of the fields that these messages have behind a prediction's, beside began,
// input and stored.
const (
	fieldNumber   = "number"
	fieldSamples  = "samples"
	fieldFeatures = "features"
)

// CarriedEncoder writes messages of predictions with their features. It belongs to one
// goroutine.
type CarriedEncoder struct {
	predictions *PredictionEncoder
	features    int
	rows        []Prediction
}

// NewCarriedEncoder returns an encoder of messages with this meta, which has a First,
// of predictions with so many features.
func NewCarriedEncoder(meta PredictionMeta, features int) (*CarriedEncoder, error) {
	if features < 1 || features > maxFeatures {
		return nil, mismatch("%d features, want 1 to %d", features, maxFeatures)
	}
	e, err := newPredictionEncoder(meta,
		arrow.Field{Name: fieldNumber, Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: fieldSamples, Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: fieldBegan, Type: timestampNS, Nullable: true},
		arrow.Field{Name: fieldInput, Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: fieldStored, Type: timestampNS, Nullable: true},
		arrow.Field{Name: fieldFeatures, Type: arrow.FixedSizeListOfNonNullable(int32(features), arrow.PrimitiveTypes.Float32)},
	)
	if err != nil {
		return nil, err
	}
	return &CarriedEncoder{predictions: e, features: features}, nil
}

// maxFeatures is far beyond any network.
const maxFeatures = 1 << 24

// Encode writes p as one message, valid until the next call. Every row must have as
// many Features as the encoder was made for.
func (e *CarriedEncoder) Encode(p []CarriedPrediction) ([]byte, error) {
	e.rows = e.rows[:0]
	for i := range p {
		if len(p[i].Features) != e.features {
			return nil, mismatch("prediction %d has %d features, want %d", i, len(p[i].Features), e.features)
		}
		e.rows = append(e.rows, p[i].Prediction)
	}
	if err := e.predictions.begin(e.rows); err != nil {
		return nil, err
	}
	t, n := e.predictions.t, len(p)
	t.column(n, func(i int) { t.u64(p[i].Number) })
	t.column(n, func(i int) { t.u64(uint64(p[i].Samples)) })
	t.times(n, func(i int) int64 { return p[i].Began })
	t.column(n, func(i int) { t.u64(p[i].Input) })
	t.times(n, func(i int) int64 { return p[i].Stored })
	t.node(n, 0)
	t.empty()
	t.column(n*e.features, func(i int) { t.f32(p[i/e.features].Features[i%e.features]) })
	return t.finish(), nil
}

// DecodeCarried reads a message of predictions with their features, as untrusting as
// DecodePredictions. All have as many features.
func DecodeCarried(payload []byte) (PredictionMeta, []CarriedPrediction, error) {
	r := predictionReader{more: carriedFields}
	var out []CarriedPrediction
	r.beyond = func(rb *recordBatch) error { return r.carried(rb, &out) }
	if err := r.read(payload); err != nil {
		return PredictionMeta{}, nil, err
	}
	for i := range r.out {
		out[i].Prediction = r.out[i]
	}
	return r.meta, out, nil
}

// carriedFields are the fields of one value per row behind a prediction's, and their
// types.
var carriedFields = []moreField{
	{fieldNumber, dataType{kind: typeInt, num: uint64s}, false},
	{fieldSamples, dataType{kind: typeInt, num: int64s}, false},
	{fieldBegan, dataType{kind: typeTimestamp, unit: 3}, true},
	{fieldInput, dataType{kind: typeInt, num: uint64s}, false},
	{fieldStored, dataType{kind: typeTimestamp, unit: 3}, true},
	{fieldFeatures, dataType{kind: typeFixedSizeList, num: float32s, size: anySize}, false},
}

// carried appends what the rows of a record batch have behind a prediction's fields.
func (r *predictionReader) carried(rb *recordBatch, out *[]CarriedPrediction) error {
	fixed, valid, err := r.fixed(rb)
	if err != nil {
		return err
	}
	features, err := r.list(rb, fieldFeatures)
	if err != nil {
		return err
	}
	n := r.cols[fieldFeatures].typ.size
	for i := range rb.rows {
		*out = append(*out, CarriedPrediction{
			Number: binary.LittleEndian.Uint64(fixed[fieldNumber][8*i:]), Samples: int64(binary.LittleEndian.Uint64(fixed[fieldSamples][8*i:])), Began: timeAt(fixed, valid, fieldBegan, i),
			Input: binary.LittleEndian.Uint64(fixed[fieldInput][8*i:]), Stored: timeAt(fixed, valid, fieldStored, i),
			Features: features[i*n : (i+1)*n : (i+1)*n],
		})
	}
	return nil
}
