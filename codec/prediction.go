package codec

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Prediction is one row of an output message.
type Prediction struct {
	Stream string
	Seq    uint64 // sequence number of the input message
	Row    uint32 // the last used row of the message
	Time   int64  // of the row, ns since the Unix epoch, UTC; NoTime if none
	// Answer is the result of the readout: Class and Set are indexes into
	// PredictionMeta.Labels, Scores are PredictionMeta.Columns numbers.
	outcome.Answer
	// Readout names the readout of the prediction, in a job with promotions; empty
	// = the job's first readout, or unknown.
	Readout string
	// Details is nil in a job's output: see PredictionMeta.Shadow and Features.
	Details *Details
}

// Place is the place of a prediction, as in JSON.
type Place struct {
	Stream string     `json:"stream"`
	Seq    uint64     `json:"seq"`
	Row    uint32     `json:"row"`
	Time   *time.Time `json:"time,omitempty"` // UTC; nil: not known
}

// Place returns the place of the prediction.
func (p *Prediction) Place() Place {
	place := Place{Stream: p.Stream, Seq: p.Seq, Row: p.Row}
	if p.Time != NoTime {
		t := time.Unix(0, p.Time).UTC()
		place.Time = &t
	}
	return place
}

// PredictionMeta is common to all predictions of a message.
type PredictionMeta struct {
	Model   string   // name
	SHA256  string   // of the model file, hexadecimal
	Readout string   // name of the readout
	Labels  []string // class names
	Columns int      // scores per row; 0: no field scores
	// First is the name of the job's first readout in the field readout. Empty: no
	// field readout, as in the messages of a job without promotions.
	First string
	// Shadow: a message of a shadow. Readout is the shadow's name, and Details have the
	// class and the name of the readout that answers.
	Shadow bool
	// Features is the number of features in the Details of each row; 0: the message has
	// no features.
	Features int
}

// Names of the output fields that are not also input fields.
const (
	fieldSeq         = "seq"
	fieldRow         = "row"
	fieldClass       = "class"
	fieldScore       = "score"
	fieldProbability = "probability"
	fieldScores      = "scores"
	fieldFlags       = "flags"
	fieldReadout     = "readout"
)

// baseColumns are the columns of one value per row in every message, in its order.
// Scores, if present, lie between the last two.
var baseColumns = func() (all []*outcome.Column) {
	for _, name := range []string{fieldStream, fieldSeq, fieldRow, fieldTime, fieldClass, fieldScore, fieldProbability, fieldFlags} {
		all = append(all, outcome.Lookup(name))
	}
	return all
}()

// Keys of the output's schema metadata.
const (
	metaModel   = "eusn.model"
	metaSHA256  = "eusn.model_sha256"
	metaReadout = "eusn.readout"
	metaLabels  = "eusn.labels"
	metaFirst   = "eusn.first_readout"
)

// maxColumns is far beyond any model; the encoder's template holds one row.
const maxColumns = 1 << 20

// PredictionEncoder writes output messages of one model and readout. An encoder
// belongs to one goroutine.
type PredictionEncoder struct {
	columns  int
	first    string // see PredictionMeta
	fields   []arrow.Field
	details  []detail      // after the extras; nil: none
	features int           // after the details; 0: none
	more     []arrow.Field // of details and features
	md       arrow.Metadata
	made     map[uint]*template // by their extras
	t        *template          // of the message in hand
}

// NewPredictionEncoder returns an encoder of messages with this meta.
func NewPredictionEncoder(meta PredictionMeta) (*PredictionEncoder, error) {
	if meta.Columns < 0 || meta.Columns > maxColumns {
		return nil, mismatch("%d score columns, want 0 to %d", meta.Columns, maxColumns)
	}
	if meta.Labels == nil {
		meta.Labels = []string{}
	}
	labels, err := json.Marshal(meta.Labels)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for _, c := range baseColumns {
		if c.Arrow == fieldFlags && meta.Columns > 0 {
			t := arrow.FixedSizeListOfNonNullable(int32(meta.Columns), arrow.PrimitiveTypes.Float32)
			fields = append(fields, arrow.Field{Name: fieldScores, Type: t})
		}
		fields = append(fields, fieldOf(c))
	}
	if meta.First != "" {
		fields = append(fields, fieldOf(outcome.Lookup(fieldReadout)))
	}
	keys := []string{"eusn.schema", "eusn.version", metaModel, metaSHA256, metaReadout, metaLabels}
	values := []string{"prediction", messageVersion, meta.Model, meta.SHA256, meta.Readout, string(labels)}
	if meta.First != "" {
		keys, values = append(keys, metaFirst), append(values, meta.First)
	}
	md := arrow.NewMetadata(keys, values)
	e := &PredictionEncoder{columns: meta.Columns, first: meta.First, fields: fields, md: md, made: map[uint]*template{}}
	if err := e.useDetails(&meta); err != nil {
		return nil, err
	}
	return e, e.use(0)
}

// use selects the template of messages with these extras.
func (e *PredictionEncoder) use(mask uint) (err error) {
	if e.t = e.made[mask]; e.t != nil {
		return nil
	}
	fields := slices.Clone(e.fields)
	for k := range extras {
		if mask>>k&1 != 0 {
			fields = append(fields, extras[k].field)
		}
	}
	if e.t, err = newTemplate(arrow.NewSchema(append(fields, e.more...), &e.md)); err == nil {
		e.made[mask] = e.t
	}
	return err
}

// Encode writes p, which may be empty, as one message, valid until the next
// call. Every prediction must have as many Scores as the meta has Columns, and a
// Stream in UTF-8: no consumer could read any other message.
func (e *PredictionEncoder) Encode(p []Prediction) ([]byte, error) {
	err := e.checkDetails(p)
	if err == nil {
		err = e.writePredictions(p)
	}
	if err == nil {
		err = e.writeDetails(p)
	}
	if err != nil {
		return nil, err
	}
	return e.t.finish(), nil
}

// writePredictions writes the fields of predictions.
func (e *PredictionEncoder) writePredictions(p []Prediction) error {
	for i := range p {
		if len(p[i].Scores) != e.columns {
			return mismatch("prediction %d has %d scores, want %d", i, len(p[i].Scores), e.columns)
		}
		if !utf8.ValidString(p[i].Stream) {
			return mismatch("prediction %d: field %q: %q is not UTF-8", i, fieldStream, p[i].Stream)
		}
	}
	mask := extrasOf(p)
	if err := e.use(mask); err != nil {
		return err
	}
	t := e.t
	t.begin(len(p))
	if err := t.text(len(p), func(i int) string { return p[i].Stream }); err != nil {
		return err
	}
	t.column(len(p), func(i int) { t.u64(p[i].Seq) })
	t.column(len(p), func(i int) { t.u32(p[i].Row) })
	t.times(len(p), func(i int) int64 { return p[i].Time })
	t.column(len(p), func(i int) { t.u32(uint32(p[i].Class)) })
	t.column(len(p), func(i int) { t.f32(p[i].Score) })
	t.probabilities(p)
	if e.columns > 0 {
		t.node(len(p), 0)
		t.empty()
		t.column(len(p)*e.columns, func(i int) { t.f32(p[i/e.columns].Scores[i%e.columns]) })
	}
	t.column(len(p), func(i int) { t.u32(uint32(p[i].Flags)) })
	if e.first != "" {
		if err := t.text(len(p), func(i int) string { return cmp.Or(p[i].Readout, e.first) }); err != nil {
			return err
		}
	}
	for k := range extras {
		if mask>>k&1 != 0 {
			extras[k].write(t, p)
		}
	}
	return nil
}

// probabilities writes the nullable field probability; 0 is null.
func (t *template) probabilities(p []Prediction) {
	t.nullable(p, func(a *outcome.Answer) bool { return a.Probability != 0 })
	t.open()
	for i := range p {
		t.f32(p[i].Probability)
	}
	t.close()
}

// column writes a fixed-width field without nulls; write appends value i.
func (t *template) column(n int, write func(i int)) {
	t.node(n, 0)
	t.empty()
	t.open()
	for i := range n {
		write(i)
	}
	t.close()
}
