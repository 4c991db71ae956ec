package gateway

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Message is what a device has sent.
type Message struct {
	Input   Input  // by which way
	From    string // address of the sender, host:port; empty: not known, or of no matter
	Key     string // of the stream; empty: the payload names it
	Payload []byte // the gateway's from then on
	Lines   bool   // Payload is line protocol
	// Lost is Gateway.Lost at the time at which the message came, of an input that loses
	// messages; 0: it loses none. If the number has risen since the stream's message
	// before, samples of the stream may be lost: then it gets a new incarnation.
	Lost uint64
	// Decoder reads Payload; nil: that of Config.
	Decoder Decoder
	Parts   []Part // what is in Payload, where the input has decoded it; the gateway's from then on
	// Session and ID identify the message, so that a repeat is recognised. An
	// empty Session: it cannot be.
	Session string
	ID      uint64
	// Repeat: the device may have sent it before, under this ID.
	Repeat bool
	// Kept: the device uses the ID for no other message before Gateway.Release, as
	// with QoS 2 of MQTT.
	Kept bool
	// Trace is where the message stands in a trace, if its sender has said so.
	Trace trace.Context
	// Done is called once, in the gateway's goroutine, which it must not block:
	// with nil when the server has acknowledged all samples of the message, with
	// an *Unreadable when it has a payload that is none, with a *Partial when it has the
	// lines that could be read, or with a *Refused. It may be nil.
	Done func(error)
}

// Input is a way by which messages come.
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

// Refused is why a message is not taken. Unless Later, it will not be taken later
// either.
type Refused struct {
	Why   string
	Later bool
}

func (r *Refused) Error() string { return "gateway: " + r.Why }

// Unreadable is why a payload cannot be read. It is stored, and the stage makes a
// dead letter of it: the same bytes will not be read later either.
type Unreadable struct{ Why string }

func (u *Unreadable) Error() string { return "gateway: the payload cannot be read: " + u.Why }

// Partial is why lines of a message are not taken, though the others are stored.
type Partial struct{ Why string }

func (p *Partial) Error() string { return "gateway: partial write: " + p.Why }

func refusedf(format string, args ...any) error { return &Refused{Why: fmt.Sprintf(format, args...)} }

// ErrHeldBack is a message that the gateway has no room for now. It may be sent
// again.
var ErrHeldBack = errors.New("gateway: it holds back: the server does not take what it has, so it takes nothing more")

// ErrStopped is a message to a gateway that ends.
var ErrStopped = errors.New("gateway: it ends")

// Part is what a message has for one stream.
type Part struct {
	Key   string    // empty: that of the message
	X     []float32 // samples x channels, row-major; NaN = missing
	Times []int64   // ns since the Unix epoch, one per sample, or empty
	Ends  []bool    // one per sample, or empty: true ends the sequence after it
	// Gap: samples before these are lost, as far as the input can tell. The stream
	// gets a new incarnation, so its next prediction carries the flag gap.
	Gap bool
	// End closes the stream's open sequence. There are no samples beside it.
	End bool

	raw   []byte // a payload that cannot be read, published as it is, as a message of its own
	why   string // it cannot be read; empty: raw is nil
	alone bool   // the stage may refuse it: it shares no message with others
}

// Decoder reads payloads. Decode may be called by many goroutines. What it
// returns is the caller's. A payload that it cannot read is an error, and
// becomes a dead letter of the stage.
type Decoder interface {
	Decode(payload []byte) ([]Part, error)
}
