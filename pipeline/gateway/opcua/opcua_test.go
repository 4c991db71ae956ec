package opcua

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/pipeline/gateway/internal/image"
)

type plain struct{}

func (plain) Sample(_ int, v any) (float32, bool) {
	x, ok := v.(float32)
	return x, ok
}

// Names of channels may have a slash; keys, too.
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

// A value's time is its source's; a bad one is missing; the overflow bit is seen.
func TestValue(t *testing.T) {
	c, err := newClient(nil, Options{URL: "opc.tcp://h", Policy: "auto", Login: "auto", Channels: []string{"x"}, Sampler: plain{}, Nodes: map[string]string{"p/x": "i=1"}})
	if err != nil {
		t.Fatal(err)
	}
	at, later := time.Unix(5, 7), time.Unix(9, 0)
	for _, one := range []struct {
		v    ua.DataValue
		want value
	}{
		{ua.DataValue{Value: ua.MustVariant(float32(3)), SourceTimestamp: at, ServerTimestamp: later}, value{at: at.UnixNano(), x: 3}},
		{ua.DataValue{Value: ua.MustVariant(float32(3)), ServerTimestamp: later, Status: 0x40000480}, value{at: later.UnixNano(), x: 3, over: true}},
		{ua.DataValue{Value: ua.MustVariant(float32(3)), SourceTimestamp: at, Status: ua.StatusBadSensorFailure}, value{at: at.UnixNano(), x: float32(math.NaN())}},
		{ua.DataValue{SourceTimestamp: at, Status: ua.StatusBadWaitingForInitialData}, value{at: at.UnixNano(), x: float32(math.NaN())}},
	} {
		got := c.value(0, &one.v)
		if got.at != one.want.at || got.over != one.want.over || got.x != one.want.x && !(math.IsNaN(float64(got.x)) && math.IsNaN(float64(one.want.x))) {
			t.Errorf("%+v: %+v, want %+v", one.v, got, one.want)
		}
	}
}
