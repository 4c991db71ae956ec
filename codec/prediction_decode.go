package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// DecodePredictions decodes an output message. For any payload, it neither panics nor
// allocates without bound; an error is of kind ErrMalformed or ErrSchema. The result keeps no
// reference to payload.
func DecodePredictions(payload []byte) (PredictionMeta, []Prediction, error) {
	var r predictionReader
	if err := r.read(payload); err != nil {
		return PredictionMeta{}, nil, err
	}
	return r.meta, r.out, nil
}

// read reads all of a message.
func (r *predictionReader) read(payload []byte) error {
	fr, rest, more, err := nextFrame(payload)
	if err == nil && (!more || fr.kind != headerSchema) {
		err = malformed("message does not begin with a schema")
	}
	if err != nil {
		return err
	}
	if err := r.readSchema(&fr); err != nil {
		return err
	}
	r.inflate.reset(len(payload))
	for {
		if fr, rest, more, err = nextFrame(rest); err != nil {
			return err
		}
		if !more {
			return nil
		}
		if fr.kind != headerRecordBatch {
			err = malformed("message of kind %d among the record batches", fr.kind)
		} else {
			err = r.batch(&fr)
		}
		if err != nil {
			return err
		}
	}
}

// predictionReader holds the state of one call of DecodePredictions.
type predictionReader struct {
	meta    PredictionMeta
	details []detail // nil: the message has none
	cols    map[string]*column
	inflate inflater
	out     []Prediction
}

func (r *predictionReader) readSchema(fr *frame) error {
	if err := checkVersion(fr, "prediction"); err != nil {
		return err
	}
	names := append([]string{fieldScores, fieldReadout}, detailNames...)
	for _, f := range baseColumns {
		names = append(names, f.Arrow)
	}
	for k := range extras {
		names = append(names, extras[k].field.Name)
	}
	c := newCollector(names)
	if err := walkSchema(fr, c.visit); err != nil {
		return err
	}
	for _, f := range baseColumns {
		col := c.want[f.Arrow]
		if col == nil {
			return mismatch("field %q: want it, got %s", f.Arrow, c.seen())
		}
		if typ := typeOf(f); col.typ != typ {
			return col.wants(typ.String())
		}
	}
	if s := c.want[fieldScores]; s != nil {
		if !s.typ.is(typeFixedSizeList) || s.typ.num != float32s || s.typ.size < 1 {
			return s.wants("fixed_size_list<float32>[1 or more]")
		}
		r.meta.Columns = s.typ.size
	}
	for k := range extras {
		if col := c.want[extras[k].field.Name]; col != nil && col.typ != extras[k].typ {
			return col.wants(extras[k].typ.String())
		}
	}
	if n := c.want[fieldReadout]; n != nil && n.typ != (dataType{kind: typeUtf8}) {
		return n.wants(dataType{kind: typeUtf8}.String())
	}
	if err := r.findDetails(c); err != nil {
		return err
	}
	r.cols = c.want
	return r.readMeta(fr)
}

// readMeta keeps views until the end: a hostile schema may repeat one long
// value many times.
func (r *predictionReader) readMeta(fr *frame) error {
	var model, sha, linear, labels, first []byte
	err := walkMetadata(fr, func(key, value []byte) {
		switch string(key) {
		case metaModel:
			model = value
		case metaSHA256:
			sha = value
		case metaReadout:
			linear = value
		case metaFirst:
			first = value
		case metaLabels:
			labels = value
		}
	})
	if err != nil {
		return err
	}
	r.meta.Model, r.meta.SHA256, r.meta.Readout, r.meta.First = string(model), string(sha), string(linear), string(first)
	if labels == nil {
		return nil
	}
	if err := json.Unmarshal(labels, &r.meta.Labels); err != nil {
		return mismatch("metadata %s: want a JSON list of strings: %v", metaLabels, err)
	}
	return nil
}

// batch appends the rows of one record batch to r.out.
func (r *predictionReader) batch(fr *frame) error {
	rb, err := readBatch(fr, fr.header, &r.inflate)
	if err != nil || rb.rows == 0 {
		return err
	}
	rows, err := r.readRows(&rb)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		p, err := rows.prediction(i, &r.meta)
		if err != nil {
			return malformed("row %d%v", len(r.out), err)
		}
		r.out = append(r.out, p)
	}
	to := r.out[len(r.out)-rb.rows:]
	for k := range extras {
		if col := r.cols[extras[k].field.Name]; col != nil {
			if err := extras[k].read(r, &rb, col, to); err != nil {
				return err
			}
		}
	}
	return r.readDetails(&rb, to)
}

// predictionRows are the columns of a record batch that every prediction has.
type predictionRows struct {
	ids, readouts *texts // readouts: nil if the message has none
	numbers       map[string]numbers
	scores        []float32
}

func (r *predictionReader) readRows(rb *recordBatch) (rows predictionRows, err error) {
	if rows.ids, err = textsOf(rb, r.cols[fieldStream]); err != nil {
		return rows, err
	}
	if rows.readouts, err = textsOf(rb, r.cols[fieldReadout]); err != nil {
		return rows, err
	}
	rows.numbers = map[string]numbers{}
	for _, f := range baseColumns[1:] {
		if rows.numbers[f.Arrow], err = rb.numbers(r.cols[f.Arrow], f.Null); err != nil {
			return rows, err
		}
	}
	rows.scores, err = rb.floats(r.cols[fieldScores])
	return rows, err
}

// prediction returns the prediction of row i. Its errors continue the words "row i".
func (rows *predictionRows) prediction(i int, meta *PredictionMeta) (p Prediction, err error) {
	if p.Stream, err = rows.ids.plain(i); err != nil {
		return p, fmt.Errorf(", field %q: %w", fieldStream, err)
	}
	value := func(name string) uint64 { n := rows.numbers[name]; return n.at(i) }
	p.Seq, p.Row, p.Time = value(fieldSeq), uint32(value(fieldRow)), int64(value(fieldTime))
	p.Class, p.Flags = int32(uint32(value(fieldClass))), outcome.Flag(value(fieldFlags))
	p.Score = math.Float32frombits(uint32(value(fieldScore)))
	if n := rows.numbers[fieldProbability]; n.known(i) {
		p.Probability = math.Float32frombits(uint32(n.at(i)))
	}
	if p.Class < 0 || int(p.Class) >= len(meta.Labels) {
		return p, fmt.Errorf(": class %d, want 0 to %d: the message names %d labels", p.Class, len(meta.Labels)-1, len(meta.Labels))
	}
	if rows.readouts != nil {
		if p.Readout, err = rows.readouts.plain(i); err != nil {
			return p, fmt.Errorf(", field %q: %w", fieldReadout, err)
		}
	}
	if n := meta.Columns; n > 0 {
		p.Scores = rows.scores[i*n : (i+1)*n : (i+1)*n]
	}
	return p, nil
}

// textsOf reads a utf8 column without nulls, which is never a view; nil if the
// message lacks the column.
func textsOf(rb *recordBatch, c *column) (*texts, error) {
	if c == nil {
		return nil, nil
	}
	if err := noNulls(rb, c, 0, 1); err != nil {
		return nil, err
	}
	t, err := rb.texts(c, nil)
	return &t, err
}

// plain returns value i, which must be UTF-8.
func (t *texts) plain(i int) (string, error) {
	b, err := t.at(i)
	if err == nil && !utf8.Valid(b) {
		err = errors.New("not UTF-8")
	}
	return string(b), err
}

// noNulls refuses nulls in a column without nulls.
func noNulls(rb *recordBatch, c *column, child, per int) error {
	nulls, err := rb.node(c, child, per)
	if err == nil && nulls {
		err = malformed("field %q: null, want a value", c.name)
	}
	return err
}
