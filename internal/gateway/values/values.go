package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

const (
	maxMachines = 100_000
	maxValue    = 1 << 10 // bytes of a message
)

// Channels maps names of values to channels.
type Channels interface {
	Channel(name string) (channel int, ok bool)
	Sample(channel int, value any) (x float32, ok bool)
}

// Assembler makes samples.
type Assembler struct {
	channels Channels
	count    int
	period   time.Duration

	mu       sync.Mutex
	machines map[string]*machine
}

// New returns an assembler of count channels. A period of 0 means a sample for each new value of
// all channels.
func New(channels Channels, count int, period time.Duration) *Assembler {
	return &Assembler{channels: channels, count: count, period: period, machines: map[string]*machine{}}
}

// machine holds the incomplete sample of a stream.
type machine struct {
	image *image.Image
	time  int64 // of the incomplete sample
	isSet []bool
	set   int // number of channels with a new value
}

// ReadValue reads the value of a message for gateway.Values.
func (a *Assembler) ReadValue(key string, payload []byte, at time.Time) (stream string, add func() ([]gateway.Part, bool), err error) {
	stream, name := Split(key)
	if stream == "" {
		return "", nil, refusef("key %q: want the key of a stream and a channel, with a / between (gateway.values)", names.Cut(key, 80))
	}
	c, known := a.channels.Channel(name)
	if !known {
		return stream, nil, nil
	}
	v, ok := Parse(payload)
	if !ok {
		return "", nil, refusef("key %q: the message %q is no number (gateway.values)", names.Cut(key, 80), names.Cut(string(payload), 40))
	}
	x := float32(math.NaN())
	if v != nil {
		if x, ok = a.channels.Sample(c, v); !ok {
			return "", nil, refusef("key %q: the message %q is no number (gateway.values)", names.Cut(key, 80), names.Cut(string(payload), 40))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.machines[stream] == nil && len(a.machines) >= maxMachines {
		return "", nil, refusef("stream %q: the limit of %d streams with single values is reached", names.Cut(stream, 80), maxMachines)
	}
	return stream, func() ([]gateway.Part, bool) { return a.addValue(stream, c, at.UnixNano(), x) }, nil
}

// addValue adds a value to its machine.
func (a *Assembler) addValue(stream string, c int, at int64, x float32) (parts []gateway.Part, included bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.machines[stream]
	if m == nil {
		m = &machine{image: image.New("", a.count, a.period), isSet: make([]bool, a.count)}
		a.machines[strings.Clone(stream)] = m
	}
	return m.setValue(c, at, x, a.period > 0)
}

// Split divides a key into the key of the stream and the channel; the stream is empty without a /.
func Split(key string) (stream, channel string) {
	at := strings.LastIndexByte(key, '/')
	if at < 0 {
		return "", key
	}
	return key[:at], key[at+1:]
}

// setValue sets a channel, and returns the complete samples, and whether they include the value.
func (m *machine) setValue(c int, at int64, x float32, periodic bool) (parts []gateway.Part, included bool) {
	if periodic {
		m.image.Set(c, at, x)
		return m.image.TakeParts(), false
	}
	if m.isSet[c] {
		parts = m.image.TakeParts()
		m.clear()
	}
	if m.set == 0 {
		m.time = at
	}
	m.image.Set(c, m.time, x)
	m.isSet[c] = true
	if m.set++; m.set == len(m.isSet) {
		parts, included = m.image.TakeParts(), true
		m.clear()
	}
	return parts, included
}

func (m *machine) clear() {
	clear(m.isSet)
	m.set = 0
}

// Parse reads a message with a single value: a number, true or false, a text with a number, null
// (nil), or an object with one of these in "value".
func Parse(payload []byte) (v any, ok bool) {
	payload = bytes.TrimSpace(payload)
	if len(payload) == 0 || len(payload) > maxValue || json.Unmarshal(payload, &v) != nil {
		return nil, false
	}
	if object, is := v.(map[string]any); is {
		if v, ok = object["value"]; !ok {
			return nil, false
		}
	}
	switch v.(type) {
	case map[string]any, []any:
		return nil, false
	}
	return v, true
}

func refusef(format string, args ...any) error {
	return &gateway.Refused{Why: fmt.Sprintf(format, args...)}
}
