package live

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/values"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// noLines refuses line protocol if input.* locates values in a way that line protocol
// lacks, such as by the paths of JSON.
type noLines struct{ why error }

func (n noLines) Decode([]byte) ([]gateway.Part, error) { return nil, n.why }

// payloads decodes with one decoder for each goroutine.
type payloads struct {
	channels int
	free     sync.Pool // of *payloadDecoder
}

type payloadDecoder struct {
	d formats.Decoder
	b codec.Batch
}

// scaledTimes are lines with times in another unit than configured.
type scaledTimes struct {
	lines gateway.Decoder // takes times for nanoseconds
	unit  int64           // in ns
}

func (s scaledTimes) Decode(payload []byte) ([]gateway.Part, error) {
	parts, err := s.lines.Decode(payload)
	for i := range parts {
		for j, t := range parts[i].Times {
			switch {
			case t == codec.NoTime:
			case t > math.MaxInt64/s.unit || t < -math.MaxInt64/s.unit:
				return nil, fmt.Errorf("influx: the time %d is beyond the years that a time can have: check precision", t)
			default:
				parts[i].Times[j] = t * s.unit
			}
		}
	}
	return parts, err
}

// newLines makes decoders of line protocol: one for the configured unit of time (0),
// and one for any other unit of the times at the ends of lines.
func newLines(in formats.Input, s codec.Schema) (func(unit time.Duration) gateway.Decoder, error) {
	lines, err := newPayloads(in, formats.Influx, s)
	inField := in.Time != "" // the time at the end of a line is ignored
	in.TimeUnit = "ns"
	plain, plainErr := newPayloads(in, formats.Influx, s)
	if err = cmp.Or(err, plainErr); err != nil {
		return func(time.Duration) gateway.Decoder { return noLines{err} }, err
	}
	if inField {
		return func(time.Duration) gateway.Decoder { return lines }, nil
	}
	return func(unit time.Duration) gateway.Decoder {
		if unit == 0 {
			return lines
		}
		return scaledTimes{plain, int64(unit)}
	}, nil
}

func newPayloads(in formats.Input, f formats.Format, s codec.Schema) (*payloads, error) {
	if in.Format == formats.Arrow || in.Format == "" {
		in = formats.Input{}
	}
	in.Format = f
	first, err := formats.New(in, s)
	if err != nil {
		return nil, err
	}
	now := func() int64 { return time.Now().UnixNano() }
	formats.SetClock(first, now)
	p := &payloads{channels: len(s.Channels), free: sync.Pool{New: func() any {
		d, err := formats.New(in, s)
		if err != nil {
			panic("BUG: " + err.Error()) // the first succeeded
		}
		formats.SetClock(d, now)
		return &payloadDecoder{d: d}
	}}}
	p.free.Put(&payloadDecoder{d: first})
	return p, nil
}

// Intake decodes messages as the gateway of a configuration does, for samples of these channels.
type Intake struct {
	topics  *gateway.Topics
	keys    *names.Patterns
	decoder *payloads
	values  gateway.Values
}

// NewIntake makes an intake.
func NewIntake(c config.Config, channels []string) (*Intake, error) {
	o := &gatewayInputs{c: c.Gateway}
	var err error
	if o.topics, err = gateway.ParseTopics(c.Gateway.Topics); err != nil {
		return nil, err
	}
	if o.keys, err = names.ParsePatterns(c.Input.Keys); err != nil {
		return nil, err
	}
	if err := o.useChannels(channels, c); err != nil {
		return nil, err
	}
	return &Intake{topics: o.topics, keys: o.keys, decoder: o.decoder, values: o.values}, nil
}

// Take decodes a message. The keys of the parts are the keys of their streams. Messages of other
// topics, and parts of streams outside input.keys are left out.
func (i *Intake) Take(topic string, payload []byte, at time.Time) (parts []gateway.Part, err error) {
	key, other := i.topics.Key(topic)
	if other != nil {
		return nil, nil
	}
	if i.values == nil && !i.keys.Allow(key) && !i.keys.Allow(key+"/") { // a/ is a stream under the key a
		return nil, nil
	}
	if i.values != nil {
		var add func() ([]gateway.Part, bool)
		if key, add, err = i.values.ReadValue(key, payload, at); add != nil {
			parts, _ = add()
		}
	} else {
		parts, err = i.decoder.Decode(payload)
	}
	for k := range parts {
		if parts[k].Key != "" {
			parts[k].Key = key + "/" + parts[k].Key
		} else {
			parts[k].Key = key
		}
	}
	return slices.DeleteFunc(parts, func(p gateway.Part) bool { return !i.keys.Allow(p.Key) }), err
}

// newValues returns the assembler of single values, nil if not configured.
func newValues(c config.Gateway, in formats.Input, s codec.Schema) (gateway.Values, error) {
	if !c.Values {
		return nil, nil
	}
	named, err := formats.NewNamed(in, s)
	if err != nil {
		return nil, err
	}
	return values.New(named, len(s.Channels), c.Period), nil
}

// Decode reads a payload and returns the part of each stream.
func (p *payloads) Decode(payload []byte) ([]gateway.Part, error) {
	d := p.free.Get().(*payloadDecoder)
	defer p.free.Put(d)
	b := &d.b
	if err := d.d.Decode(payload, b); err != nil {
		return nil, err
	}
	for _, at := range b.Missing {
		b.X[at] = float32(math.NaN())
	}
	if len(b.Keys) == 0 {
		return []gateway.Part{{X: slices.Clone(b.X), Times: slices.Clone(b.Times), Ends: slices.Clone(b.Ends)}}, nil
	}
	parts := make([]gateway.Part, len(b.Keys))
	for i, k := range b.Keys {
		parts[i].Key = k
	}
	for row, k := range b.Key {
		to := &parts[k]
		to.X = append(to.X, b.X[row*p.channels:(row+1)*p.channels]...)
		if len(b.Times) > 0 {
			to.Times = append(to.Times, b.Times[row])
		}
		if len(b.Ends) > 0 {
			to.Ends = append(to.Ends, b.Ends[row])
		}
	}
	return parts, nil
}
