package discover

import "time"

// Message is a message of a broker.
type Message struct {
	Topic   string
	Payload []byte
	At      time.Time // arrival
}

// Limits of the kept messages.
const (
	mostMessages = 500_000
	mostBytes    = 128 << 20
)

// Observer keeps messages in order of arrival. It belongs to one goroutine.
type Observer struct {
	Messages []Message
	bytes    int
}

// Add keeps a message, and returns false at the limit of messages.
func (o *Observer) Add(m Message) bool {
	if len(o.Messages) == mostMessages || o.bytes+len(m.Payload) > mostBytes {
		return false
	}
	o.bytes += len(m.Payload)
	o.Messages = append(o.Messages, m)
	return true
}
