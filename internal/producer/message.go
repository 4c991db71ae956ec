package producer

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// endMark is the written form of a sequence's end.
const endMark = "true"

// newMessage returns message seq of an incarnation. The server stores the message once,
// for any number of attempts: within the duplicate window, the id identifies the message;
// run in the id names the sending program.
func newMessage(subject, run, incarnation string, seq uint64, data []byte, end bool) *nats.Msg {
	number := strconv.FormatUint(seq, 10)
	h := nats.Header{
		wire.HeaderSeq: {number}, wire.HeaderIncarnation: {incarnation}, wire.HeaderCRC: {fmt.Sprintf("%08x", wire.CRC(data))},
		jetstream.MsgIDHeader: {subject + ":" + run + ":" + number},
	}
	if end {
		h.Set(wire.HeaderEnd, endMark)
	}
	return &nats.Msg{Subject: subject, Header: h, Data: data}
}

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
