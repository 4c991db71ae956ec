package offline

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// predictionFields are the columns of a prediction file.
var predictionFields = []arrow.Field{
	{Name: "id", Type: arrow.BinaryTypes.String},
	{Name: "samples", Type: arrow.PrimitiveTypes.Int32},
	{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "predicted", Type: arrow.BinaryTypes.String},
	{Name: "scores", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32)},
	{Name: "position", Type: arrow.PrimitiveTypes.Int64},
	{Name: "flags", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "probability", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "novelty", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "novelty_p", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "change", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "number", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "value", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "low", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "high", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "inputs", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32), Nullable: true},
}

// WritePredictions writes a row per prediction to a Parquet file: id utf8 of
// the series or stream, samples int32 of the sequence, label utf8 (null:
// unknown, or the sequence has several), predicted utf8, scores list<float32> in
// the order of the metadata key eusn.classes (one score for two classes),
// position int64 (samples of the series so far), flags uint32 (outcome.Flag; 16 is
// an early prediction), probability float32 of predicted (null where the readout has
// no temperature; see package codec), novelty float32 and novelty_p float32 (how unlike the
// training part it is, and the p-value; null where the readout has no detector), change float32 (probability that the class changes until the end;
// null of a prediction at an end, or where the readout has no rule; flag 2048 says that it suffices), and of a regression number float64 (the true
// one, null where unknown), value, low and high float32 (else null), inputs list<float32> (what the inputs are like, as
// codec.Prediction.Inputs; null where no detector says it). Other keys: eusn.problem, eusn.split, eusn.model (its fingerprint),
// eusn.readout. Like an archive it appears whole or not at all.
func (ev *Evaluation) WritePredictions(path string) error {
	meta := arrow.MetadataFrom(map[string]string{
		keyProblem: ev.Dataset, keyClasses: toJSON(ev.Classes),
		"eusn.split": string(ev.Split), "eusn.model": ev.Model, "eusn.readout": ev.Readout,
	})
	schema := arrow.NewSchema(predictionFields, &meta)
	file, err := createArchive(path, schema, writerProps([]string{"label", "predicted"}, false))
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	numeric := ev.numeric()
	for _, p := range ev.Predictions {
		b.Field(0).(*array.StringBuilder).Append(p.ID)
		b.Field(1).(*array.Int32Builder).Append(int32(p.Samples))
		if p.Label < 0 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.StringBuilder).Append(ev.Classes[p.Label])
		}
		b.Field(3).(*array.StringBuilder).Append(ev.Classes[p.Class])
		list := b.Field(4).(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Float32Builder).AppendValues(p.Scores, nil)
		b.Field(5).(*array.Int64Builder).Append(p.Position)
		b.Field(6).(*array.Uint32Builder).Append(uint32(p.Flags))
		for i, v := range []struct {
			value float32
			null  bool
		}{{p.Probability, p.Probability == 0}, {p.Novelty, p.NoveltyP == 0}, {p.NoveltyP, p.NoveltyP == 0}, {p.Change, p.Change == 0}} {
			if v.null {
				b.Field(7 + i).AppendNull()
			} else {
				b.Field(7 + i).(*array.Float32Builder).Append(v.value)
			}
		}
		if number := b.Field(11).(*array.Float64Builder); numeric && p.Label >= 0 {
			number.Append(p.Truth)
		} else {
			number.AppendNull()
		}
		for i, v := range []float32{p.Number.Value, p.Number.Low, p.Number.High} {
			if to := b.Field(12 + i).(*array.Float32Builder); numeric {
				to.Append(v)
			} else {
				to.AppendNull()
			}
		}
		if inputs := b.Field(15).(*array.ListBuilder); p.Inputs == nil {
			inputs.AppendNull()
		} else {
			inputs.Append(true)
			inputs.ValueBuilder().(*array.Float32Builder).AppendValues(p.Inputs, nil)
		}
	}
	if err := writeGroup(file, b); err != nil {
		file.abort()
		return err
	}
	return file.commit()
}
