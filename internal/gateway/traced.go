package gateway

import "github.com/eusn-stream/eusn-stream/internal/trace"

// spanOf is the span of a batch's way to the server; nil where it is not traced. One
// message in it that brings a trace: the batch continues that. Several: it begins one of
// its own, with links. None: it may begin one, too.
func spanOf(t trace.Tracer, job string, b *batch) *trace.Span {
	var parent trace.Context
	if len(b.traces) > 0 {
		parent = b.traces[0]
	}
	if !t.Takes(parent) {
		return nil
	}
	span := &trace.Span{Kind: trace.Producer, Begin: b.begun}
	if len(b.traces) > 1 {
		parent, span.Links = trace.Context{}, b.traces
	}
	span.Parent, span.Context = parent, parent.Child()
	span.Name = "send " + job + ".in"
	span.Attributes = append(trace.OfMessage("send", "send", b.b.Subject, job+".in"), trace.Text(trace.Job, job),
		trace.Text(trace.Key, b.s.key), trace.Number(trace.Samples, b.rows), trace.Number(trace.BodySize, len(b.b.Payload)))
	return span
}
