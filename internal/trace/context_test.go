package trace

import (
	"strings"
	"testing"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestParse: the examples of the W3C recommendation, and similar invalid texts.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		parent:             parent,
		parent[:53] + "00": parent[:53] + "00",
		parent[:53] + "03": parent, // other flags are not passed on
		"01" + parent[2:]:  parent,
		"cc" + parent[2:] + "-what the future will be like": parent,
		"":                      "",
		parent[:54]:             "",
		parent + "-x":           "",
		parent + " ":            "",
		"ff" + parent[2:]:       "",
		"cc" + parent[2:] + ".": "",
		strings.ToUpper(parent): "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"cc" + parent[2:] + "-" + strings.Repeat("x", mostParent): "",
	} {
		c, ok := Parse(text)
		if got := c.Parent(); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v, want %q", text, got, ok, want)
		}
	}
}

// TestHeaders: headers from other programs: the form of HTTP libraries is accepted, and invalid
// data is not passed on.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		h           map[string][]string
		want, state string
	}{
		{nil, "", ""},
		{map[string][]string{"traceparent": {parent}}, parent, ""},
		{map[string][]string{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}, parent, "a=1,b=2"},
		{map[string][]string{"traceparent": {parent, parent}}, "", ""},
		{map[string][]string{"traceparent": {}}, "", ""},
		{map[string][]string{"tracestate": {"a=1"}}, "", ""},
		{map[string][]string{"traceparent": {parent}, "tracestate": {"a=\x01"}}, parent, ""},
		{map[string][]string{"traceparent": {parent}, "tracestate": {"a=ü"}}, parent, ""},
		{map[string][]string{"traceparent": {parent}, "tracestate": {strings.Repeat("x", mostState)}}, parent, strings.Repeat("x", mostState)},
		{map[string][]string{"traceparent": {parent}, "tracestate": {strings.Repeat("x", mostState), "y"}}, parent, ""},
	} {
		got := Of(c.h)
		if got.Parent() != c.want || got.State != c.state {
			t.Errorf("%v: %q with %q, want %q with %q", c.h, got.Parent(), got.State, c.want, c.state)
		}
		h := map[string][]string{}
		if got.Put(h); Of(h) != got {
			t.Errorf("%v: read, written and read it is %v, was %v", c.h, Of(h), got)
		}
	}
}

// TestChild: a child has its parent's trace, or a new trace without a parent.
func TestChild(t *testing.T) {
	p, _ := Parse(parent)
	a, b := p.Child(), p.Child()
	if a.Trace != p.Trace || a.Span == p.Span || a.Span == b.Span || !a.Sampled() {
		t.Errorf("children %v and %v of %v", a, b, p)
	}
	x, y := new(Context).Child(), new(Context).Child()
	if !x.Valid() || !x.Sampled() || x.Trace == y.Trace {
		t.Errorf("beginnings %v and %v", x, y)
	}
}

// TestOfAllocates: reading headers of each message allocates no memory.
func TestOfAllocates(t *testing.T) {
	without := map[string][]string{"Eusn-Seq": {"1"}, "Eusn-Crc": {"00000000"}, "Nats-Msg-Id": {"x"}}
	with := map[string][]string{"Eusn-Seq": {"1"}, "traceparent": {parent}}
	for _, h := range []map[string][]string{nil, without, with} {
		if n := testing.AllocsPerRun(100, func() { Of(h) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0", h, n)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	h := map[string][]string{"Eusn-Seq": {"1"}, "Eusn-Incarnation": {"x"}, "Eusn-Crc": {"00000000"}, "Nats-Msg-Id": {"x"}}
	for b.Loop() {
		Of(h)
	}
}
