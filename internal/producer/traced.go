package producer

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// spanOf returns the span of sending a message, nil if the message is not traced. A message
// with one traced piece continues the trace of the piece. A message with several traced pieces
// starts a new trace with links to their traces. A message without a traced piece may start a
// trace.
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
