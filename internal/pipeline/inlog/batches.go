package inlog

import (
	"context"
	"errors"
	"io"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
)

// Source returns messages with ascending numbers, and then io.EOF. A source that is
// also an io.Closer must be closed.
type Source interface {
	Next(ctx context.Context) (Message, error)
	Removed() uint64 // number of messages removed before they could be read
}

// Batches hands the messages of a source to a shard, in batches.
type Batches struct {
	Source Source
	Direct *shard.Direct
	// Lost: messages before the first message read are lost.
	Lost bool
	// Cut: reading begins in the middle of the log. At its end, held messages are used.
	Cut bool
	// Read is called after each message, and reports whether the batch may have another.
	Read func(*Message) bool
}

// Fill begins a batch and reads messages until the batch is full. ended is the reason
// why the source returns no more: io.EOF, or an error. Messages read before are in the
// batch.
func (b *Batches) Fill(ctx context.Context) (ended, err error) {
	b.Direct.BeginBatch()
	for room := true; room; {
		m, ended := b.Source.Next(ctx)
		if ended != nil {
			if errors.Is(ended, io.EOF) && b.Cut {
				err = b.Direct.ReleaseWaiting()
			}
			return ended, err
		}
		m.Lost, b.Lost = m.Lost || b.Lost, false
		if room, err = b.Direct.TakeMessage(m.Message, m.Stored); err != nil {
			return nil, err
		}
		room = b.Read(&m) && room
	}
	return nil, nil
}

// Run reads to the end of the source. compute computes each batch.
func (b *Batches) Run(ctx context.Context, compute func() error) error {
	for {
		ended, err := b.Fill(ctx)
		over := errors.Is(ended, io.EOF)
		if err == nil && !over {
			err = ended
		}
		if err == nil {
			err = compute()
		}
		if err != nil || over {
			return err
		}
	}
}
