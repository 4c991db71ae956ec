package offline

import (
	"encoding/json"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// extras are the columns of a prediction file that only some readouts give. Sets are not
// written to files.
var extras = slices.DeleteFunc(slices.Clone(outcome.Extras), func(c *outcome.Column) bool { return c.Type == outcome.ClassList })

// predictionFields are the columns of a prediction file; extras come last.
var predictionFields = func() []arrow.Field {
	fields := []arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String},
		{Name: "samples", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "predicted", Type: arrow.BinaryTypes.String},
		{Name: "scores", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32)},
		{Name: "position", Type: arrow.PrimitiveTypes.Int64},
		{Name: "flags", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "probability", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "number", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "time", Type: arrow.FixedWidthTypes.Timestamp_ns, Nullable: true},
		{Name: "seq", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "part", Type: arrow.BinaryTypes.String, Nullable: true},
	}
	for _, c := range extras {
		fields = append(fields, arrow.Field{Name: c.Name, Type: extraTypes[c.Type], Nullable: true})
	}
	return fields
}()

var extraTypes = map[outcome.Type]arrow.DataType{
	outcome.Float32:   arrow.PrimitiveTypes.Float32,
	outcome.FloatList: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32),
}

// WritePredictions writes a row per prediction to a Parquet file: id utf8 of the series or stream, samples int32 of
// the sequence, label utf8 (null: unknown, or the sequence has several), predicted utf8, scores list<float32> in the
// order of the metadata key eusn.classes (one score for two classes), position int64 (samples of the series so far),
// flags uint32 (outcome.Flag; 16 is an early prediction), probability float32 of predicted (null: the readout has no
// temperature; see package codec), number float64 (the true number of a regression; null: unknown, or classes are
// predicted), of the last sample time timestamp (ns, UTC), seq int64 and part utf8 (train or test; each null if the data
// have none), then the columns of outcome.Extras but set, null without a value. Other keys: eusn.problem, eusn.split,
// eusn.model (its fingerprint), eusn.readout. Like an archive, the file is written whole or not at all.
func (ev *Evaluation) WritePredictions(path string) error {
	classes, err := json.Marshal(ev.Classes)
	if err != nil {
		return err
	}
	meta := arrow.MetadataFrom(map[string]string{
		"eusn.problem": ev.Dataset, "eusn.classes": string(classes),
		"eusn.split": string(ev.Split), "eusn.model": ev.Model, "eusn.readout": ev.Readout,
	})
	schema := arrow.NewSchema(predictionFields, &meta)
	return archive.WriteTable(path, schema, []string{"label", "predicted"}, func(b *array.RecordBuilder) {
		for i := range ev.Predictions {
			ev.appendPrediction(b, &ev.Predictions[i])
		}
	})
}

// appendPrediction appends a row.
func (ev *Evaluation) appendPrediction(b *array.RecordBuilder, p *Prediction) {
	b.Field(0).(*array.StringBuilder).Append(p.ID)
	b.Field(1).(*array.Int32Builder).Append(int32(p.Samples))
	if p.Label < 0 {
		b.Field(2).AppendNull()
	} else {
		b.Field(2).(*array.StringBuilder).Append(ev.Classes[p.Label])
	}
	b.Field(3).(*array.StringBuilder).Append(ev.Classes[p.Class])
	appendFloats(b.Field(4), p.Scores)
	b.Field(5).(*array.Int64Builder).Append(p.Position)
	b.Field(6).(*array.Uint32Builder).Append(uint32(p.Flags))
	if p.Probability == 0 {
		b.Field(7).AppendNull()
	} else {
		b.Field(7).(*array.Float32Builder).Append(p.Probability)
	}
	if ev.numeric() && p.Label >= 0 {
		b.Field(8).(*array.Float64Builder).Append(p.Truth)
	} else {
		b.Field(8).AppendNull()
	}
	appendSample(b, p)
	for i, c := range extras {
		switch to := b.Field(len(predictionFields) - len(extras) + i); {
		case !c.Known(&p.Answer):
			to.AppendNull()
		case c.Type == outcome.FloatList:
			appendFloats(to, *c.Floats(&p.Answer))
		default:
			to.(*array.Float32Builder).Append(*c.Float(&p.Answer))
		}
	}
}

// appendSample appends the columns of a prediction's last sample.
func appendSample(b *array.RecordBuilder, p *Prediction) {
	time, seq, part := b.Field(9).(*array.TimestampBuilder), b.Field(10).(*array.Int64Builder), b.Field(11).(*array.StringBuilder)
	if p.Time == archive.NoTime {
		time.AppendNull()
	} else {
		time.Append(arrow.Timestamp(p.Time))
	}
	if p.Seq == nil {
		seq.AppendNull()
	} else {
		seq.Append(*p.Seq)
	}
	if p.Part == "" {
		part.AppendNull()
	} else {
		part.Append(string(p.Part))
	}
}

func appendFloats(to array.Builder, values []float32) {
	list := to.(*array.ListBuilder)
	list.Append(true)
	list.ValueBuilder().(*array.Float32Builder).AppendValues(values, nil)
}
