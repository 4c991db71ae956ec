package values

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
)

func assemble(t *testing.T, period time.Duration) func(ms int, key, payload string) string {
	t.Helper()
	named, err := formats.NewNamed(formats.Input{}, codec.Schema{Channels: []string{"x", "y"}, NonFinite: codec.Hold})
	if err != nil {
		t.Fatal(err)
	}
	a := New(named, 2, period)
	return func(ms int, key, payload string) string {
		stream, add, err := a.ReadValue(key, []byte(payload), time.UnixMilli(int64(ms)))
		if err != nil {
			return "error " + err.Error()
		}
		if add == nil {
			return ""
		}
		parts, _ := add()
		var all []string
		for _, p := range parts {
			for i, at := range p.Times {
				all = append(all, fmt.Sprintf("%s@%d:%v", stream, at/int64(time.Millisecond), p.X[2*i:2*i+2]))
			}
		}
		return strings.Join(all, " ")
	}
}

// A sample needs a new value of each channel, or the second value of one.
func TestSamplesOfSingleValues(t *testing.T) {
	take := assemble(t, 0)
	for i, c := range []struct {
		ms                 int
		key, payload, want string
	}{
		{0, "p1/x", "1", ""}, // y is unknown
		{1, "p1/x", "2", ""},
		{2, "p2/y", "9", ""}, // another machine
		{3, "p1/y", "10", "p1@1:[2 10]"},
		{10, "p1/y", `"11.5"`, ""},
		{11, "p1/x", `{"value": 3, "unit": "bar"}`, "p1@10:[3 11.5]"},
		{20, "p1/x", "4", ""},
		{30, "p1/x", "5", "p1@20:[4 11.5]"}, // y is slower
		{31, "p1/other", "text", ""},
		{32, "p1/y", "null", "p1@30:[5 NaN]"},
		{40, "p1/y", "true", ""},
		{41, "p1/x", "-1e3", "p1@40:[-1000 1]"},
		{42, "x", "1", `error gateway: key "x": want the key of a stream and a channel, with a / between (gateway.values)`},
		{43, "p1/x", "on", `error gateway: key "p1/x": the message "on" is no number (gateway.values)`},
		{44, "p1/x", "[1]", `error gateway: key "p1/x": the message "[1]" is no number (gateway.values)`},
		{45, "p1/x", `"off"`, `error gateway: key "p1/x": the message "\"off\"" is no number (gateway.values)`},
	} {
		if got := take(c.ms, c.key, c.payload); got != c.want {
			t.Errorf("message %d, %s %s: got %q, want %q", i, c.key, c.payload, got, c.want)
		}
	}
}

func TestSingleValuesByPeriod(t *testing.T) {
	take := assemble(t, 10*time.Millisecond)
	got := take(1, "p/x", "1") + take(2, "p/y", "2") + take(12, "p/x", "3") + take(31, "p/y", "4")
	if want := "p@10:[1 2]p@20:[3 2] p@30:[3 2]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.5", "null", "true", `"2"`, `{"value":1}`, `{"value":{}}`, "[", "1e999", "NaN"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		v, ok := Parse(payload)
		switch x := v.(type) {
		case nil, bool, string:
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("%q is %v", payload, x)
			}
		default:
			t.Errorf("%q is a %T", payload, v)
		}
		if !ok && v != nil {
			t.Errorf("%q is %v, and no value", payload, v)
		}
	})
}
