package owner

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// lastPlace is the last input message used by a partition: the last delivered message
// or, after a claim, the last message on which the record depends.
type lastPlace struct {
	storing sync.Mutex // a message of the consumer before may come late
	seq     atomic.Uint64
	Stored  atomic.Int64
}

// Store records a later message; a replayed message is ignored.
func (l *lastPlace) Store(at wire.Place) {
	l.storing.Lock()
	defer l.storing.Unlock()
	if at.Seq <= l.seq.Load() {
		return
	}
	l.seq.Store(0) // a concurrent reader sees 0
	l.Stored.Store(at.Stored)
	l.seq.Store(at.Seq)
}

func (l *lastPlace) Load() wire.Place {
	at := wire.Place{Seq: l.seq.Load(), Stored: l.Stored.Load()}
	if l.seq.Load() != at.Seq {
		return wire.Place{}
	}
	return at
}

// oldest is the server's answer about the oldest stored and unanswered message of a
// partition.
type oldest struct {
	place wire.Place    // of the message; zero = none
	asked time.Time     // when
	ahead time.Duration // of the server's clock before this machine's
}

// inputView is the knowledge about a partition's input beyond the messages. Each field
// has one writer: the consumer's callback, unless the field names another writer.
type inputView struct {
	replayed uint64 // the claim's: messages up to this message were answered before
	rests    uint64 // the claim's: the message whose predictions after replayed are answered, if the record names it

	Came    lastPlace     // of the input; before the consumer, the claim's
	brought atomic.Uint64 // the last delivered message, including replayed messages
	passed  atomic.Uint64 // the shard has all messages up to this message; of two readers, one after the other
	unread  atomic.Int64  // unread input messages on the server when the last message came; written by the monitor, too
	Doubt   atomic.Bool   // the input's beginning is near; the monitor's, too
	owes    atomic.Bool   // a message of another partition came when the server should be asked: the next message asks

	oldest atomic.Pointer[oldest] // the oldest watch's: the last answer; nil = none

	common atomic.Bool // the common reader's: it reads for the partition
	apart  time.Time   // the common reader's: not before

	empty atomic.Pointer[state.Interval] // the monitor's: the partition has no input after message from, up to message to
	tell  atomic.Bool                    // the record is to store empty: set by the monitor, cleared by the emitter
	told  atomic.Uint64                  // the emitter's: the range stored in the record
}

// knownLast returns the message up to which the partition has read all input.
func (p *inputView) knownLast() uint64 {
	n := p.replayed
	if seq := p.Came.Load().Seq; seq > p.rests { // a split commit depends on a message after the state
		n = max(n, seq)
	}
	if e := p.empty.Load(); e != nil {
		n = max(n, e.To)
	}
	return n
}

// noteIdle corrects the server's count of unread messages for a partition without any.
// The server counts messages removed during the creation of the consumer, and never
// subtracts them.
func (p *inputView) noteIdle(unread int64) {
	p.unread.CompareAndSwap(unread, 0)
}

// emptyAfter returns the message up to which the partition is known to have no input
// after message seq; 0 = unknown.
func (p *inputView) emptyAfter(seq uint64) uint64 {
	if e := p.empty.Load(); e != nil && e.From == seq {
		return e.To
	}
	return 0
}

// doubtLeases is how many leases before the input's beginning reaches a partition the
// partition begins to check, with each message, whether input was removed: more than a
// check interval (a lease) plus the time of a check.
const doubtLeases = 3
