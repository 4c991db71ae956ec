package producer

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
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
