package producer

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// all traces every message, unless the message opts out.
type all struct{}

func (all) Takes(c trace.Context) bool { return !c.Valid() || c.Sampled() }
func (all) Record(...*trace.Span)      {}

// A batch continues the trace of the only traced message; with several traced messages,
// or none, the batch begins a new trace, with links.
func TestSpanOfABatch(t *testing.T) {
	a, b := new(trace.Context).Child(), new(trace.Context).Child()
	for n, traces := range [][]trace.Context{nil, {a}, {a, b}} {
		s := spanOf(all{}, "eusn", "pump7", &open{msg: &Message{Subject: "sensors.pump7"}, traces: traces})
		switch {
		case s == nil || !s.Context.Valid() || s.Kind != trace.Producer || s.Name != "send eusn.in":
			t.Errorf("%d traces: %+v", n, s)
		case n == 1 && (s.Parent != a || s.Context.Trace != a.Trace || len(s.Links) > 0):
			t.Errorf("one trace: %+v", s)
		case n != 1 && (s.Parent.Valid() || len(s.Links) != n):
			t.Errorf("%d traces: %+v", n, s)
		}
	}
	a.Flags = 0
	if s := spanOf(all{}, "eusn", "", &open{msg: &Message{}, traces: []trace.Context{a}}); s != nil {
		t.Errorf("a batch that nobody traces has %+v", s)
	}
}
