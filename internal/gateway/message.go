package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Message is a device's message.
type Message struct {
	Input   Input  // the way into the gateway
	From    string // address of the sender, host:port; empty: not known, or of no matter
	Key     string // of the stream; empty: the payload names it
	Payload []byte // the gateway's from then on
	Lines   bool   // Payload is line protocol
	// Lost is Gateway.Lost at the arrival of the message, for an input that loses
	// messages, otherwise 0. If the number has risen since the stream's previous
	// message, samples of the stream may be lost: then it gets a new incarnation.
	Lost uint64
	// Decoder reads Payload; nil: the Decoder of Config.
	Decoder Decoder
	Parts   []Part // the decoded Payload, if the input has decoded it; owned by the gateway
	// Session and ID identify the message, to recognize a repeat. An empty Session: not
	// identified.
	Session string
	ID      uint64
	// Repeat: the device may have sent the message before, under this ID.
	Repeat bool
	// Kept: the device reuses the ID only after Gateway.Release, as with QoS 2 of MQTT.
	Kept bool
	// Trace is the message's trace, if set by the sender.
	Trace trace.Context
	// Done is called once, in the gateway's goroutine, and must not block this
	// goroutine: with nil when the server has acknowledged all samples of the message,
	// with an *Unreadable for an unreadable payload, with a *Partial if only some lines
	// were readable, or with a *Refused. Done may be nil.
	Done func(error)

	addValue func() (parts []Part, included bool) // the message has a single value; nil: it has Parts
}

// Input is a way of messages into the gateway.
type Input uint8

// The inputs.
const (
	MQTT   Input = iota // a device at the gateway's own broker
	Broker              // another broker
	HTTP
	TCP    // lines
	UDP    // lines
	OPCUA  // a server of OPC UA, subscribed to
	Modbus // a server of Modbus TCP, polled
	inputs
)

func (i Input) String() string {
	return [...]string{"mqtt", "broker", "http", "tcp", "udp", "opcua", "modbus"}[i]
}

// Refused is the reason why a message is not accepted. Unless Later, a repeat will also
// be refused.
type Refused struct {
	Why   string
	Later bool

	outside bool // the key and all keys of streams under it are outside input.keys
}

func (r *Refused) Error() string { return "gateway: " + r.Why }

// Unreadable is the reason for an unreadable payload. The payload is stored, and
// becomes a dead letter of the stage: a repeat with the same bytes is also unreadable.
type Unreadable struct{ Why string }

func (u *Unreadable) Error() string { return "gateway: the payload cannot be read: " + u.Why }

// Partial is the reason for refused lines of a message, while the other lines are
// stored.
type Partial struct{ Why string }

func (p *Partial) Error() string { return "gateway: partial write: " + p.Why }

func refusedf(format string, args ...any) error { return &Refused{Why: fmt.Sprintf(format, args...)} }

// ErrHeldBack reports a gateway without room at the moment. The message may be resent.
var ErrHeldBack = errors.New("gateway: it holds back: the server does not take what it has, so it takes nothing more")

// ErrStopped reports a message to an ending gateway.
var ErrStopped = errors.New("gateway: it ends")

// Part is a message's data for a single stream.
type Part struct {
	Key   string    // empty: the message's key
	X     []float32 // samples x channels, row-major; NaN = missing
	Times []int64   // ns since the Unix epoch, one per sample, or empty
	Ends  []bool    // one per sample, or empty: true ends the sequence after the sample
	// Gap: earlier samples are lost, as far as the input can detect. The stream gets a
	// new incarnation, so its next prediction carries the flag gap.
	Gap bool
	// End closes the stream's open sequence. The part has no samples.
	End bool

	raw   []byte // an unreadable payload, published unchanged, as a separate message
	why   string // the reason; empty: raw is nil
	alone bool   // the stage may refuse the part: no message shared with other parts

	held *outbox.Held // the messages of its single values; nil: the message of the part
}

// Values makes samples from messages with a single value each. ReadValue returns the key
// of the stream, and add, which adds the value. A nil add: the message is ignored. An
// error is a *Refused. Both may be called by many goroutines. add returns the samples
// that are complete from then on, and whether they include the value.
type Values interface {
	ReadValue(key string, payload []byte, at time.Time) (stream string, add func() (parts []Part, included bool), err error)
}

// Decoder reads payloads. Decode may be called by many goroutines. The result belongs
// to the caller. An unreadable payload is an error, and becomes a dead letter of the
// stage.
type Decoder interface {
	Decode(payload []byte) ([]Part, error)
}
