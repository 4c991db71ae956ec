package inlog

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// After a message was dropped because the reading ends, no later message is passed on:
// the reader would treat the dropped message as removed.
func TestNothingBehindWhatWasLetGo(t *testing.T) {
	t.Parallel()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := &Log{came: make(chan delivered, readAhead), fault: make(chan error, 1)}
		for seq := range uint64(20) {
			if seq == 5 {
				cancel()
			}
			l.deliverMessage(ctx, input{seq: seq + 1})
		}
		close(l.came)
		at := uint64(0)
		for m := range l.came {
			if at++; m.Seq != at {
				t.Fatalf("message %d came behind message %d", m.Seq, at-1)
			}
		}
		if at < 5 {
			t.Fatalf("%d messages came, want the 5 of before", at)
		}
	}
}

// input is a message with a number.
type input struct {
	jetstream.Msg
	seq uint64
}

func (m input) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.seq, Consumer: m.seq}}, nil
}
