package trace

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// The headers of a message that say where in a trace it stands.
const (
	HeaderParent = "traceparent"
	HeaderState  = "tracestate"
)

const (
	parentBytes = 55  // of a traceparent in version 00
	mostParent  = 256 // bytes of one in a later version, of which only the beginning is read
	mostState   = 512 // bytes of a tracestate: what the recommendation has everybody pass on
	sampled     = 1   // of the flags
)

// Context is a span's place: which trace it belongs to, which span it is, and whether
// somebody keeps the trace. The zero value is none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
	State string // what tracing systems have added, as it came
}

// Valid reports whether there is one.
func (c *Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled reports whether whoever made the span keeps its trace.
func (c *Context) Sampled() bool { return c.Flags&sampled != 0 }

// Parent is the context as text, as in a traceparent; empty where there is none.
func (c *Context) Parent() string {
	if !c.Valid() {
		return ""
	}
	b := make([]byte, 0, parentBytes)
	b = hex.AppendEncode(append(b, "00-"...), c.Trace[:])
	b = hex.AppendEncode(append(b, '-'), c.Span[:])
	b = hex.AppendEncode(append(b, '-'), []byte{c.Flags & sampled})
	return string(b)
}

// Put writes the context into headers, where there is one.
func (c *Context) Put(h map[string][]string) {
	if !c.Valid() {
		return
	}
	h[HeaderParent] = []string{c.Parent()}
	if c.State != "" {
		h[HeaderState] = []string{c.State}
	}
}

// Child is the context of a new span in the same trace; of a new trace that is kept
// where there is none.
func (c *Context) Child() Context {
	child := *c
	if !c.Valid() {
		child = Context{Flags: sampled}
		fill(child.Trace[:])
	}
	fill(child.Span[:])
	return child
}

// fill writes random bytes, which are not all 0.
func fill(b []byte) {
	for i := 0; i < len(b); i += 8 {
		v := rand.Uint64() | 1
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
}

// Of reads the context out of the headers of a message or a request; none where there
// is none, or where it is not as the recommendation wants it. Headers come from
// strangers: whatever they hold is no fault of the message.
func Of(h map[string][]string) (c Context) {
	v := find(h, HeaderParent, "Traceparent")
	if len(v) != 1 {
		return Context{}
	}
	c, ok := Parse(v[0])
	if !ok {
		return Context{}
	}
	c.State = stateOf(find(h, HeaderState, "Tracestate"))
	return c
}

// find is a header under its name, or as HTTP libraries write it. Who writes it in
// another way is not heard: looking at every header of every message costs more.
func find(h map[string][]string, name, canonical string) []string {
	if v, ok := h[name]; ok {
		return v
	}
	return h[canonical]
}

// stateOf joins a tracestate. One that is too long, or has other characters than it
// may have, is left out.
func stateOf(values []string) string {
	size := 0
	for _, v := range values {
		size += len(v) + 1
	}
	if size == 0 || size > mostState+1 {
		return ""
	}
	s := strings.Join(values, ",")
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return ""
		}
	}
	return s
}

// Parse reads a traceparent. Of a later version than 00 the beginning is read, as the
// recommendation says.
func Parse(s string) (c Context, ok bool) {
	if len(s) < parentBytes || len(s) > mostParent || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	good := unhex(version[:], s[:2]) && unhex(c.Trace[:], s[3:35]) && unhex(c.Span[:], s[36:52]) && unhex(flags[:], s[53:55])
	switch {
	case !good || version[0] == 0xff || !c.Valid():
		return Context{}, false
	case len(s) > parentBytes && (version[0] == 0 || s[parentBytes] != '-'):
		return Context{}, false
	}
	c.Flags = flags[0] & sampled
	return c, true
}

// unhex reads lower-case hex digits.
func unhex(to []byte, s string) bool {
	for i := range to {
		high, low := digit(s[2*i]), digit(s[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
