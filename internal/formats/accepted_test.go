package formats

import (
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Valid but rare device messages: only base values and decimal fractions in SenML, and
// leap seconds.
func TestAcceptedSeldom(t *testing.T) {
	at := func(text string) int64 {
		x, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return x.UnixNano()
	}
	for _, c := range []struct {
		in      Input
		payload string
		x       []float32
		times   []int64
	}{
		{Input{Format: SenML}, `[{"bn":"p:","bt":1767225600,"bv":20,"n":"a"},{"n":"b","v":2}]`, []float32{20, 22}, []int64{1767225600e9}},
		{Input{Format: SenML}, `[{"bn":"p:","bt":1767225600,"bv":20},{"n":"a"},{"n":"b"}]`, []float32{20, 20}, []int64{1767225600e9}},
		{Input{Format: SenML}, `[{"bt":1767225600,"bv":20,"n":"a","s":7},{"n":"a","v":1},{"n":"b","v":2}]`, []float32{21, 22}, []int64{1767225600e9}},
		{Input{Format: SenML}, "\x82\xa3\x22\xc4\x82\x00\x1a\x69\x55\xb9\x00\x00\x61a\x02\xc4\x82\x21\x19\x01\x11\xa2\x00\x61b\x02\xc4\x82\x03\x20", []float32{2.73, -1000}, []int64{1767225600e9}},
		{Input{Format: JSON}, `{"a":1,"b":2,"ts":"2016-12-31T23:59:60Z"}`, []float32{1, 2}, []int64{at("2016-12-31T23:59:59.999999999Z")}},
		{Input{Format: JSON}, `{"a":1,"b":2,"ts":"2015-07-01T01:59:60.5+02:00"}`, []float32{1, 2}, []int64{at("2015-06-30T23:59:59.999999999Z")}},
		{Input{Format: CSV}, "a,b,ts\n1,2,2016-12-31 23:59:60\n", []float32{1, 2}, []int64{at("2016-12-31T23:59:59.999999999Z")}},
	} {
		var b codec.Batch
		if err := newDecoder(t, c.in, codec.Reject, "a", "b").Decode([]byte(c.payload), &b); err != nil || !slices.Equal(b.X, c.x) || !slices.Equal(b.Times, c.times) {
			t.Errorf("%q: %v at %v (%v), want %v at %v", c.payload, b.X, b.Times, err, c.x, c.times)
		}
	}
	for _, no := range []string{"2016-12-31T23:58:60Z", "2016-12-31T22:59:60Z", "2016-12-30T23:59:60Z", "2016-12-31T23:59:61Z", "2016-12-31T23:59:60+01:00"} {
		if ns, ok := timeOf([]byte(no), 0); ok {
			t.Errorf("%s is %v, want no time", no, ns)
		}
	}
	if ns, ok := timeOf([]byte("9999-12-31T23:59:60Z"), 0); ok || ns != 0 {
		t.Errorf("a leap second beyond all times is %v, %v", ns, ok)
	}
}
