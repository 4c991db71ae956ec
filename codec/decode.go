package codec

import (
	"bytes"
	"math"
	"slices"
)

// NonFinite is the policy for samples that no reservoir may receive: nulls, NaN
// and infinities, including infinities from a cast to float32.
type NonFinite string

// The policies. The empty string means Reject.
const (
	Reject NonFinite = "reject" // refuse the message with ErrNonFinite
	Hold   NonFinite = "hold"   // leave NaN in X and list the index in Missing: the caller repeats the stream's previous sample
	Zero   NonFinite = "zero"   // put 0 in X and list the index in Missing
)

// Names of the fields that are not channels.
const (
	fieldStream = "stream_id"
	fieldTime   = "ts"
	fieldEnd    = "end"
	fieldList   = "x"
)

// Schema describes the input messages of a model.
type Schema struct {
	Channels  []string // names in the model's order; at least one, distinct, none of stream_id, ts, end
	NonFinite NonFinite
}

// Validate reports the first error in the schema.
func (s Schema) Validate() error {
	switch s.NonFinite {
	case "", Reject, Hold, Zero:
	default:
		return mismatch("non-finite policy %q, want %q, %q or %q", s.NonFinite, Reject, Hold, Zero)
	}
	return checkChannels(s.Channels)
}

func checkChannels(channels []string) error {
	if len(channels) == 0 {
		return mismatch("no channels, want at least one")
	}
	for i, name := range channels {
		switch name {
		case "":
			return mismatch("channel %d has no name", i)
		case fieldStream, fieldTime, fieldEnd:
			return mismatch("channel %d is named %q, which is reserved", i, name)
		}
		if slices.Contains(channels[:i], name) {
			return mismatch("two channels are named %q", name)
		}
	}
	return nil
}

// Batch is one decoded message. The caller owns the Batch and may reuse it: the
// slices grow and never shrink. After an error the Batch is empty.
type Batch struct {
	Rows    int
	X       []float32 // Rows x len(Channels), row-major
	Times   []int64   // ns since the Unix epoch, UTC, one per row, NoTime for a null; empty if the message has no ts
	Ends    []bool    // one per row: true closes the stream's sequence after the row (null: false); empty without the field
	Keys    []string  // multi-stream message: distinct stream ids in order of first appearance; empty otherwise
	Key     []int32   // one per row, index into Keys; empty for a single-stream message
	Missing []int32   // ascending flat indices into X of null, NaN or Inf; always empty under Reject
}

// NoTime stands for a null time.
const NoTime = math.MinInt64

// Reset empties the batch and keeps its capacity.
func (b *Batch) Reset() {
	*b = Batch{X: b.X[:0], Times: b.Times[:0], Ends: b.Ends[:0], Keys: b.Keys[:0], Key: b.Key[:0], Missing: b.Missing[:0]}
}

// knownPlans is how many schemas a Decoder remembers. Producers of one model
// rarely differ in more than tool and column order.
const knownPlans = 4

// maxKnownSchema bounds the remembered bytes of one schema.
const maxKnownSchema = 64 << 10

// Decoder reads input messages for one model. A Decoder belongs to one goroutine.
type Decoder struct {
	schema    Schema
	plans     [knownPlans]*plan
	oldest    int // of plans, replaced next
	inflate   inflater
	keys      keyTable
	dict      []int32  // entries of keys for the values of the message's dictionary, badEntry for unusable ones
	views     []values // scratch of gather, one per channel
	listValid []byte   // scratch of gather: the rows of x that are not null
	blocks    [][]byte // scratch of texts
}

// NewDecoder returns a decoder of messages that fit s.
func NewDecoder(s Schema) (*Decoder, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s.Channels = slices.Clone(s.Channels)
	return &Decoder{schema: s, views: make([]values, len(s.Channels))}, nil
}

// Decode reads payload into b, without references to payload. Strings in b.Keys
// stay valid for ever; the next call with the same b overwrites everything
// else.
//
// An error is of kind ErrMalformed, ErrSchema or ErrNonFinite, and names the
// field and row; rows count from 0 over the whole message.
func (d *Decoder) Decode(payload []byte, b *Batch) error {
	b.Reset()
	err := d.decode(payload, b)
	clear(d.views) // views into payload
	d.listValid = nil
	clear(d.blocks)
	if err != nil {
		b.Reset()
	}
	return err
}

func (d *Decoder) decode(payload []byte, b *Batch) error {
	d.inflate.reset(len(payload))
	d.keys.begin()
	d.dict = d.dict[:0]
	if p, rb := d.known(payload); p != nil {
		return d.batch(p, &rb, b)
	}
	fr, rest, more, err := nextFrame(payload)
	if err != nil {
		return err
	}
	if !more || fr.kind != headerSchema {
		return malformed("message does not begin with a schema")
	}
	p, err := d.plan(&fr)
	if err != nil {
		return err
	}
	var rb recordBatch
	for n, lone := 0, false; ; n++ {
		if fr, rest, more, err = nextFrame(rest); err != nil {
			return err
		}
		if !more {
			if lone {
				p.remember(payload, &rb)
			}
			return nil
		}
		lone = n == 0 && fr.kind == headerRecordBatch
		switch fr.kind {
		case headerRecordBatch:
			if rb, err = readBatch(&fr, fr.header, &d.inflate); err == nil {
				err = d.batch(p, &rb, b)
			}
		case headerDictionaryBatch:
			err = d.dictionary(p, &fr)
		default:
			err = malformed("message of kind %d among the record batches", fr.kind)
		}
		if err != nil {
			return err
		}
	}
}

// plan finds the plan for the schema message, by its bytes for a known schema.
func (d *Decoder) plan(fr *frame) (*plan, error) {
	for _, p := range d.plans {
		if p != nil && bytes.Equal(p.schema, fr.meta.b) {
			return p, nil
		}
	}
	unknown := *fr // a copy, so that the frame of a known schema stays on the stack
	p, err := newPlan(&unknown, d.schema.Channels)
	if err != nil {
		return nil, err
	}
	if len(fr.meta.b) <= maxKnownSchema {
		p.schema = slices.Clone(fr.meta.b)
		d.plans[d.oldest] = p
		d.oldest = (d.oldest + 1) % knownPlans
	}
	return p, nil
}

// batch appends the rows of one record batch to b.
func (d *Decoder) batch(p *plan, rb *recordBatch, b *Batch) error {
	if rb.rows == 0 {
		return nil
	}
	if total := (int64(b.Rows) + int64(rb.rows)) * int64(len(d.schema.Channels)); total > math.MaxInt32 {
		return malformed("%d values in one message, at most %d fit", total, math.MaxInt32)
	}
	if err := d.gather(p, rb, b); err != nil {
		return err
	}
	if p.time != nil {
		if err := appendTimes(rb, p.time, b); err != nil {
			return err
		}
	}
	if p.end != nil {
		if err := appendEnds(rb, p.end, b); err != nil {
			return err
		}
	}
	if p.stream != nil {
		if err := d.appendKeys(rb, p.stream, b); err != nil {
			return err
		}
	}
	b.Rows += rb.rows
	return nil
}
