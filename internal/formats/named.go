package formats

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Named finds the channel of a named value: for protocols that send single values, such
// as Sparkplug B. A channel's source is then the name of its value, with an optional
// scale and offset.
type Named struct {
	schema   codec.Schema
	channels []source
	byName   map[string]int
}

// NewNamed resolves an input's channels for a model. The rest of the input concerns other
// formats.
func NewNamed(in Input, s codec.Schema) (*Named, error) {
	l, err := layoutOf(Input{Format: Auto, Channels: in.Channels}, s)
	if err != nil {
		return nil, err
	}
	return namedOf(l)
}

func namedOf(l *layout) (*Named, error) {
	n := &Named{schema: l.schema, channels: l.channels, byName: map[string]int{}}
	for c, s := range l.channels {
		name := l.schema.Channels[c]
		if len(s.steps) != 1 || s.steps[0].index >= 0 {
			return nil, fmt.Errorf("formats: input.channels of %q is %q: want the name of a value, such as {%s: temperature}, or in quotes {%s: '[\"oil temperature\"]'}", name, s.text, name, name)
		}
		if other, twice := n.byName[s.steps[0].name]; twice {
			return nil, fmt.Errorf("formats: input.channels of %q: %q is channel %q already", name, s.steps[0].name, l.schema.Channels[other])
		}
		n.byName[s.steps[0].name] = c
	}
	return n, nil
}

// Channel returns the channel of a name.
func (n *Named) Channel(name string) (c int, ok bool) {
	c, ok = n.byName[name]
	return c, ok
}

// Name returns the name of a channel's value.
func (n *Named) Name(c int) string { return n.channels[c].steps[0].name }

// Sample converts a value to a sample of channel c, rounded once, as in a message: a
// number, a bool or a text with a number. ok is false for other values.
func (n *Named) Sample(c int, v any) (x float32, ok bool) {
	s := &n.channels[c]
	switch v := v.(type) {
	case float64:
		return s.scaled(v), true
	case float32:
		return s.scaled(float64(v)), true
	case bool:
		return s.fromBool(v), true
	case string:
		if len(v) > mostDigits {
			return 0, false
		}
		return s.fromText([]byte(v))
	case int8:
		return s.fromInteger(int64(v)), true
	case int16:
		return s.fromInteger(int64(v)), true
	case int32:
		return s.fromInteger(int64(v)), true
	case int64:
		return s.fromInteger(v), true
	case uint8:
		return s.fromInteger(int64(v)), true
	case uint16:
		return s.fromInteger(int64(v)), true
	case uint32:
		return s.fromInteger(int64(v)), true
	case uint64:
		if s.linear {
			return s.scaled(float64(v)), true
		}
		return float32(v), true
	}
	return 0, false
}

// mostDigits bounds the length of a text with a number.
const mostDigits = 1 << 10

// fromInteger converts a whole number, rounded once without scale and offset.
func (s *source) fromInteger(v int64) float32 {
	if s.linear {
		return s.scaled(float64(v))
	}
	return float32(v)
}
