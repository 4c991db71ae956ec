package owner

import (
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// idleMessage is an end event for a partition, on its way to the input.
func idleMessage(p wire.Pattern, partitions, part int, data []byte) *nats.Msg {
	return &nats.Msg{
		Subject: p.Subject(p.IdleKey(part, partitions)),
		Header:  nats.Header{wire.HeaderKind: {wire.KindIdle}}, Data: data,
	}
}

// EndSilent asks for the end of streams that have been silent too long: it
// publishes an end event into the partition's input. An answer is not awaited.
func (t *Ownership) EndSilent(event []byte) error {
	_, err := t.w.Server.JS.PublishMsgAsync(idleMessage(t.w.Server.In.Pattern, t.w.Partitions, t.part.State.ID, event), jetstream.WithRetryAttempts(0))
	return err
}
