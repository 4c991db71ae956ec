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

// Assembler makes samples. Parts may be called by many goroutines; the values of one machine must
// be in order.
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

// Parts takes the value of a message, and returns the key of its stream and the samples that are
// now complete, if any.
func (a *Assembler) Parts(key string, payload []byte, at time.Time) (stream string, parts []gateway.Part, err error) {
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
	m := a.machines[stream]
	if m == nil {
		if len(a.machines) == maxMachines {
			return "", nil, refusef("stream %q: the limit of %d streams with single values is reached", names.Cut(stream, 80), maxMachines)
		}
		m = &machine{image: image.New("", a.count, a.period), isSet: make([]bool, a.count)}
		a.machines[strings.Clone(stream)] = m
	}
	return stream, m.setValue(c, at.UnixNano(), x, a.period > 0), nil
}

// Split divides a key into the key of the stream and the channel; the stream is empty without a /.
func Split(key string) (stream, channel string) {
	at := strings.LastIndexByte(key, '/')
	if at < 0 {
		return "", key
	}
	return key[:at], key[at+1:]
}

// setValue sets a channel, and returns complete samples.
func (m *machine) setValue(c int, at int64, x float32, periodic bool) (parts []gateway.Part) {
	if periodic {
		m.image.Set(c, at, x)
		return m.image.TakeParts()
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
		parts = append(parts, m.image.TakeParts()...)
		m.clear()
	}
	return parts
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
