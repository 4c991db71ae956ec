package opcua

import (
	"bytes"
	"encoding/gob"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
)

type plain struct{}

func (plain) Sample(_ int, v any) (float32, bool) {
	x, ok := v.(float32)
	return x, ok
}

// Names of channels and keys may contain a slash.
func TestNodes(t *testing.T) {
	keys, items, err := parseNodes(map[string]string{"A/1/x": "i=1", "A/1/x/y": "i=2", "B/x": "i=3", "B/x/y": "i=4"}, []string{"x", "x/y"})
	if err != nil || !slices.Equal(keys, []string{"A/1", "B"}) || len(items) != 4 {
		t.Fatalf("%v, %v, %v", keys, items, err)
	}
	for i, want := range []image.Place{{Stream: 0, Channel: 0}, {Stream: 0, Channel: 1}, {Stream: 1, Channel: 0}, {Stream: 1, Channel: 1}} {
		if items[i].Place != want {
			t.Errorf("item %d: %+v", i, items[i])
		}
	}
}

// A value's time is its source's time; a bad value is missing; the overflow bit is read.
func TestValue(t *testing.T) {
	c, err := newClient(nil, Options{URL: "opc.tcp://h", Policy: "auto", Login: "auto", Channels: []string{"x"}, Sampler: plain{}, Nodes: map[string]string{"p/x": "i=1"}})
	if err != nil {
		t.Fatal(err)
	}
	source, later := time.Unix(5, 7), time.Unix(9, 0)
	for _, test := range []struct {
		v    ua.DataValue
		want value
	}{
		{ua.DataValue{Value: ua.MustVariant(float32(3)), SourceTimestamp: source, ServerTimestamp: later}, value{time: source.UnixNano(), number: 3}},
		{ua.DataValue{Value: ua.MustVariant(float32(3)), ServerTimestamp: later, Status: 0x40000480}, value{time: later.UnixNano(), number: 3, overflowed: true}},
		{ua.DataValue{Value: ua.MustVariant(float32(3)), SourceTimestamp: source, Status: ua.StatusBadSensorFailure}, value{time: source.UnixNano(), number: float32(math.NaN())}},
		{ua.DataValue{SourceTimestamp: source, Status: ua.StatusBadWaitingForInitialData}, value{time: source.UnixNano(), number: float32(math.NaN())}},
	} {
		r := newReading(0, &test.v)
		got := c.readValue(&r)
		if got.time != test.want.time || got.overflowed != test.want.overflowed || got.number != test.want.number && !(math.IsNaN(float64(got.number)) && math.IsNaN(float64(test.want.number))) {
			t.Errorf("%+v: %+v, want %+v", test.v, got, test.want)
		}
	}
}

// An unmeasured value is no first value, whatever its status, and is in no sample.
// Uncertain values are measurements, except the status UncertainInitialValue.
func TestFirstValues(t *testing.T) {
	x := func(v float32) *ua.Variant { return ua.MustVariant(v) }
	null, err := ua.NewVariant(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []ua.DataValue{
		{Status: ua.StatusBadWaitingForInitialData}, {Status: ua.StatusBadWaitingForInitialData, Value: x(7)}, {Status: ua.StatusBadNotConnected, Value: x(0)}, {Status: ua.StatusBadNoCommunication},
		{Status: ua.StatusBadSensorFailure, Value: x(7)}, {Status: ua.StatusBadOutOfService, Value: x(7)}, {}, {Value: null}, {Status: ua.StatusGoodNoData}, {Status: ua.StatusUncertainInitialValue, Value: x(0)},
		{Value: x(float32(math.NaN()))}, {Value: ua.MustVariant("text")},
	} {
		for _, first := range []bool{true, false} {
			b := make(book, 100)
			c, err := newClient(b, Options{URL: "opc.tcp://h", Policy: "auto", Login: "auto", Channels: []string{"x", "y"}, Sampler: plain{}, Nodes: map[string]string{"p/x": "i=1", "p/y": "i=2"}, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			send := func(item int, ms int64, v ua.DataValue) {
				v.SourceTimestamp = time.UnixMilli(ms)
				if err := c.publishValues(t.Context(), []reading{newReading(item, &v)}); err != nil {
					t.Fatal(err)
				}
			}
			if !first { // an earlier session had values
				c.startSession(&grant{})
				send(0, 1, ua.DataValue{Value: x(8)})
				send(1, 2, ua.DataValue{Value: x(9)})
			}
			c.startSession(&grant{})
			send(0, 1000, missing)
			send(1, 1001, missing)
			send(0, 2000, ua.DataValue{Value: x(1.5)})
			send(0, 2500, ua.DataValue{Value: x(1.25)})
			send(1, 3000, ua.DataValue{Value: x(2.5)})
			send(0, 4000, ua.DataValue{Value: x(1.625)})
			send(1, 5000, missing)
			close(b)
			var got []string
			for line := range b {
				if strings.HasPrefix(line, "sample") {
					got = append(got, line)
				}
			}
			if want := []string{"sample gap p 4000: [1.625 2.5]", "sample p 5000: [1.625 NaN]"}; !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", missing, got, want)
			}
		}
	}
}

// differences lists the settings changed by the server.
func TestGrantedSettings(t *testing.T) {
	o := &Options{Sampling: 10 * time.Millisecond, Publishing: 100 * time.Millisecond, Queue: 20, Nodes: map[string]string{"p/x": "i=1", "p/y": "i=2"}}
	if got := (&grant{Sampling: o.Sampling, Publishing: o.Publishing, Queue: 20}).differences(o); got != nil {
		t.Errorf("%q", got)
	}
	got := (&grant{Sampling: 2 * time.Second, Slow: 2, Publishing: time.Second, Queue: 1, Short: 1}).differences(o)
	if want := []string{
		"it samples every 2s, not every 10ms (2 of 2 variables; gateway.opcua.sampling)",
		"it sends every 1s, not every 100ms (gateway.opcua.publishing)",
		"it keeps 1 values, not 20 (1 of 2 variables; gateway.opcua.queue)",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	o.Sampling = 0
	if got, want := (&grant{Sampling: 100 * time.Millisecond, Slow: 1, Publishing: o.Publishing}).differences(o), "it samples every 100ms, not each change (1 of 2 variables; gateway.opcua.sampling)"; !slices.Equal(got, []string{want}) {
		t.Errorf("%q", got)
	}
}

// Any value with any status reaches the gateway's process unchanged, and is missing or a
// number. (Undecodable bytes end the reader process: see
// TestChangedBytesEndOneSessionOnly.)
func FuzzReading(f *testing.F) {
	f.Add(uint32(0), uint8(0), uint64(1), "")
	f.Add(uint32(ua.StatusBadWaitingForInitialData), uint8(1), uint64(1), "text")
	b := make(book, 1<<10)
	c, err := newClient(b, Options{URL: "opc.tcp://h", Policy: "auto", Login: "auto", Channels: []string{"x"}, Sampler: plain{}, Nodes: map[string]string{"p/x": "i=1"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint32, kind uint8, bits uint64, text string) {
		all := []any{float32(math.Float32frombits(uint32(bits))), math.Float64frombits(bits), bits, int64(bits), uint32(bits), int32(bits), uint16(bits), int16(bits), uint8(bits), int8(bits), bits&1 != 0,
			text, []byte(text), []int32{int32(bits)}, time.Unix(0, int64(bits)), ua.StatusCode(bits), nil}
		x, err := ua.NewVariant(all[int(kind)%len(all)])
		if err != nil {
			t.Fatal(err)
		}
		r := newReading(0, &ua.DataValue{Value: x, Status: ua.StatusCode(status), SourceTimestamp: time.Unix(0, int64(bits))})
		var wire bytes.Buffer
		if err := gob.NewEncoder(&wire).Encode(report{Values: []reading{r}}); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		var got report
		if err := gob.NewDecoder(&wire).Decode(&got); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		direct, plain := c.readValue(&got.Values[0]), c.readValue(&r)
		if bad := status>>severity >= 2; bad && !direct.missing || direct.missing != (direct.number != direct.number) || math.Float32bits(direct.number) != math.Float32bits(plain.number) || direct.time != int64(bits) {
			t.Errorf("%+v: %+v, in one process %+v", r, direct, plain)
		}
		for len(b) > 0 {
			<-b
		}
	})
}
