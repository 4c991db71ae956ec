package owner

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ownMessage makes a message of the stage for a partition's input.
func ownMessage(p wire.Pattern, partitions, part int, kind string, data []byte) *nats.Msg {
	return &nats.Msg{
		Subject: p.Subject(p.IdleKey(part, partitions)),
		Header:  nats.Header{wire.HeaderKind: {kind}}, Data: data,
	}
}

// EndSilent requests the end of streams silent for too long: EndSilent publishes an end
// event into the partition's input, without waiting for an answer.
func (t *Ownership) EndSilent(event []byte) error {
	return t.putEvent(wire.KindIdle, event)
}

// putEvent publishes an event of the stage into the partition's input.
func (t *Ownership) putEvent(kind string, event []byte) error {
	_, err := t.w.Server.JS.PublishMsgAsync(ownMessage(t.w.Server.In.Pattern, t.w.Partitions, t.part.State.ID, kind, event), jetstream.WithRetryAttempts(0))
	return err
}
