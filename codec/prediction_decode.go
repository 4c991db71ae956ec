package codec

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// DecodePredictions reads an output message, as untrusting as a Decoder. The
// result does not refer to payload.
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

// predictionReader holds what one call of DecodePredictions knows.
type predictionReader struct {
	more    []moreField                 // fields that the message must have, too
	beyond  func(rb *recordBatch) error // reads these; nil: there are none
	meta    PredictionMeta
	cols    map[string]*column
	inflate inflater
	out     []Prediction
}

func (r *predictionReader) readSchema(fr *frame) error {
	if err := checkVersion(fr, "prediction"); err != nil {
		return err
	}
	names := []string{fieldScores, fieldReadout}
	for _, f := range baseColumns {
		names = append(names, f.Arrow)
	}
	for k := range extras {
		names = append(names, extras[k].field.Name)
	}
	for _, f := range r.more {
		names = append(names, f.name)
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
	if err := r.checkMore(c); err != nil {
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
	ids, err := textsOf(&rb, r.cols[fieldStream])
	if err != nil {
		return err
	}
	readouts, err := textsOf(&rb, r.cols[fieldReadout])
	if err != nil {
		return err
	}
	fixed, valid := map[string][]byte{}, map[string][]byte{}
	for _, f := range baseColumns[1:] {
		col := r.cols[f.Arrow]
		if f.Null {
			valid[f.Arrow], err = rb.bitmap(col, 0, 0, 1)
		} else {
			err = noNulls(&rb, col, 0, 1)
		}
		if err != nil {
			return err
		}
		width := 8 // of ts
		if col.typ.num != notNumber {
			width = col.typ.num.width()
		}
		if fixed[f.Arrow], err = rb.buffer(col, 1, rb.rows*width); err != nil {
			return err
		}
	}
	scores, err := r.list(&rb, fieldScores)
	if err != nil {
		return err
	}
	for i := range rb.rows {
		id, err := ids.plain(i)
		if err != nil {
			return malformed("row %d, field %q: %v", len(r.out), fieldStream, err)
		}
		p := Prediction{
			Stream: id, Seq: binary.LittleEndian.Uint64(fixed[fieldSeq][8*i:]), Row: binary.LittleEndian.Uint32(fixed[fieldRow][4*i:]),
			Time: int64(binary.LittleEndian.Uint64(fixed[fieldTime][8*i:])),
			Answer: outcome.Answer{
				Class: int32(binary.LittleEndian.Uint32(fixed[fieldClass][4*i:])),
				Score: math.Float32frombits(binary.LittleEndian.Uint32(fixed[fieldScore][4*i:])),
				Flags: outcome.Flag(binary.LittleEndian.Uint32(fixed[fieldFlags][4*i:])),
			},
		}
		if valid[fieldProbability] == nil || bit(valid[fieldProbability], i) {
			p.Probability = math.Float32frombits(binary.LittleEndian.Uint32(fixed[fieldProbability][4*i:]))
		}
		if p.Class < 0 || int(p.Class) >= len(r.meta.Labels) {
			return malformed("row %d: class %d, want 0 to %d: the message names %d labels", len(r.out), p.Class, len(r.meta.Labels)-1, len(r.meta.Labels))
		}
		if valid[fieldTime] != nil && !bit(valid[fieldTime], i) {
			p.Time = NoTime
		}
		if readouts != nil {
			if p.Readout, err = readouts.plain(i); err != nil {
				return malformed("row %d, field %q: %v", len(r.out), fieldReadout, err)
			}
		}
		if n := r.meta.Columns; n > 0 {
			p.Scores = scores[i*n : (i+1)*n : (i+1)*n]
		}
		r.out = append(r.out, p)
	}
	for k := range extras {
		if col := r.cols[extras[k].field.Name]; col != nil {
			if err := extras[k].read(r, &rb, col, r.out[len(r.out)-rb.rows:]); err != nil {
				return err
			}
		}
	}
	if r.beyond != nil {
		return r.beyond(&rb)
	}
	return nil
}

// textsOf reads a utf8 column without nulls, which is never a view; nil where the
// message does not have it.
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

// plain is value i, which must be UTF-8.
func (t *texts) plain(i int) (string, error) {
	b, err := t.at(i)
	if err == nil && !utf8.Valid(b) {
		err = errors.New("not UTF-8")
	}
	return string(b), err
}

// noNulls refuses nulls where the format has none.
func noNulls(rb *recordBatch, c *column, child, per int) error {
	nulls, err := rb.node(c, child, per)
	if err == nil && nulls {
		err = malformed("field %q: null, want a value", c.name)
	}
	return err
}
