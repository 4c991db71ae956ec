package producer

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// spanOf is the span of a message's way to the server; nil if it is not traced. One
// piece in it that brings a trace: the message continues that. Several: it begins one of
// its own, with links. None: it may begin one, too.
func spanOf(t trace.Tracer, job, key string, o *open) *trace.Span {
	var parent trace.Context
	if len(o.traces) > 0 {
		parent = o.traces[0]
	}
	if !t.Takes(parent) {
		return nil
	}
	span := &trace.Span{Kind: trace.Producer, Begin: o.begun}
	if len(o.traces) > 1 {
		parent, span.Links = trace.Context{}, slices.Clone(o.traces)
	}
	span.Parent, span.Context = parent, parent.Child()
	span.Name = "send " + job + ".in"
	span.Attributes = append(trace.OfMessage("send", "send", o.msg.Subject, job+".in"), trace.Text(trace.Job, job),
		trace.Text(trace.Key, key), trace.Number(trace.Samples, o.rows), trace.Number(trace.BodySize, len(o.msg.Payload)))
	return span
}
