package trace

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// The trace headers of a message.
const (
	HeaderParent = "traceparent"
	HeaderState  = "tracestate"
)

const (
	parentBytes = 55  // of a traceparent in version 00
	mostParent  = 256 // bytes of a traceparent in a later version, of which only the start is read
	mostState   = 512 // bytes of a tracestate: the size that the recommendation requires to be passed on
	sampled     = 1   // bit of the flags
)

// Context is a span's identity: its trace, its own ID, and whether the trace is kept. The zero
// value is no context.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
	State string // data of tracing systems, unchanged
}

// Valid reports whether the context identifies a span.
func (c *Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Sampled reports whether the span's creator keeps the trace.
func (c *Context) Sampled() bool { return c.Flags&sampled != 0 }

// Parent returns the context as a traceparent; empty if the context is not valid.
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

// Put writes a valid context into headers.
func (c *Context) Put(h map[string][]string) {
	if !c.Valid() {
		return
	}
	h[HeaderParent] = []string{c.Parent()}
	if c.State != "" {
		h[HeaderState] = []string{c.State}
	}
}

// Child returns the context of a new span in the same trace; without a valid context, in a new
// trace that is kept.
func (c *Context) Child() Context {
	child := *c
	if !c.Valid() {
		child = Context{Flags: sampled}
		fillRandom(child.Trace[:])
	}
	fillRandom(child.Span[:])
	return child
}

// fillRandom writes random bytes, which are not all 0.
func fillRandom(b []byte) {
	for i := 0; i < len(b); i += 8 {
		v := rand.Uint64() | 1
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
}

// Of reads the context from the headers of a message or a request; the result is no context if the
// headers are missing or violate the recommendation. Wrong headers from other programs are no fault
// of the message.
func Of(h map[string][]string) (c Context) {
	v := findHeader(h, HeaderParent, "Traceparent")
	if len(v) != 1 {
		return Context{}
	}
	c, ok := Parse(v[0])
	if !ok {
		return Context{}
	}
	c.State = joinState(findHeader(h, HeaderState, "Tracestate"))
	return c
}

// findHeader returns a header by its name, or in the form of HTTP libraries. Other forms are
// ignored: checking every header of every message costs more.
func findHeader(h map[string][]string, name, canonical string) []string {
	if v, ok := h[name]; ok {
		return v
	}
	return h[canonical]
}

// joinState joins a tracestate. It drops a tracestate that is too long, or has invalid characters.
func joinState(values []string) string {
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

// Parse parses a traceparent. Of a version after 00 it reads the start, as the recommendation
// requires.
func Parse(s string) (c Context, ok bool) {
	if len(s) < parentBytes || len(s) > mostParent || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	good := decodeHex(version[:], s[:2]) && decodeHex(c.Trace[:], s[3:35]) && decodeHex(c.Span[:], s[36:52]) && decodeHex(flags[:], s[53:55])
	switch {
	case !good || version[0] == 0xff || !c.Valid():
		return Context{}, false
	case len(s) > parentBytes && (version[0] == 0 || s[parentBytes] != '-'):
		return Context{}, false
	}
	c.Flags = flags[0] & sampled
	return c, true
}

// decodeHex decodes lower-case hex digits.
func decodeHex(to []byte, s string) bool {
	for i := range to {
		high, low := hexDigit(s[2*i]), hexDigit(s[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}
