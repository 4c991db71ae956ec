package producer

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// endMark is how we write that a sequence ends.
const endMark = "true"

// message is the seq-th message of an incarnation. The server
// stores it once, however often it is sent: within its duplicate window it
// knows the message by its id, in which run names the program that sends it.
func message(subject, run, incarnation string, seq uint64, data []byte, end bool) *nats.Msg {
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
