package owner

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// lastPlace is the furthest input message that a partition stands on: the last
// that its consumer brought or, after a claim, the last that its record rests
// on.
type lastPlace struct {
	storing sync.Mutex // a message of the consumer before may come late
	seq     atomic.Uint64
	Stored  atomic.Int64
}

// Store takes note of a message behind all before it; one that is replayed is
// none.
func (l *lastPlace) Store(at wire.Place) {
	l.storing.Lock()
	defer l.storing.Unlock()
	if at.Seq <= l.seq.Load() {
		return
	}
	l.seq.Store(0) // a reader between the two sees that
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

// oldest is what the server has answered about the oldest message of a partition that is
// stored and not answered.
type oldest struct {
	place wire.Place    // of it; zero = there was none
	asked time.Time     // when
	ahead time.Duration // of the server's clock before this machine's
}

// inputView is what is known of a partition's input beyond its messages. Each
// field has one writer: the consumer's callback, or, where it says so, another.
type inputView struct {
	replayed uint64 // the claim's: messages up to this one were answered before
	rests    uint64 // the claim's: the message that predictions beyond replayed are of, where the record says it

	Came    lastPlace     // of the input; before the consumer, the claim's
	brought atomic.Uint64 // the message that the consumer has delivered last, also one that is replayed
	passed  atomic.Uint64 // the shard has all messages up to this one; of two readers, of one after the other
	unread  atomic.Int64  // input messages that the server had when the last one came; the monitor's, too
	Doubt   atomic.Bool   // the input's beginning is near; the monitor's, too
	owes    atomic.Bool   // a message of another partition came where the server was to be asked: it is, with the next one

	oldest atomic.Pointer[oldest] // the oldest watch's: as the server was asked last; nil = never

	common atomic.Bool // the common reader's: it reads for the partition
	apart  time.Time   // the common reader's: not before

	empty atomic.Pointer[state.Interval] // the monitor's: there is no input of the partition behind message from, up to message to
	tell  atomic.Bool                    // the record is to say so: set by the monitor, cleared by the emitter
	told  atomic.Uint64                  // the emitter's: up to where it does
}

// knownLast is what a partition knows of the input: up to this message, it has
// read all that is its own.
func (p *inputView) knownLast() uint64 {
	n := p.replayed
	if seq := p.Came.Load().Seq; seq > p.rests { // what a split commit rests on lies behind the state
		n = max(n, seq)
	}
	if e := p.empty.Load(); e != nil {
		n = max(n, e.To)
	}
	return n
}

// noteIdle corrects what the server said of unread messages, where it has none. It
// counts messages that were removed while it made the consumer, and never stops.
func (p *inputView) noteIdle(unread int64) {
	p.unread.CompareAndSwap(unread, 0)
}

// emptyAfter is up to where the partition is known to have no input behind its
// message seq; 0 = not known.
func (p *inputView) emptyAfter(seq uint64) uint64 {
	if e := p.empty.Load(); e != nil && e.From == seq {
		return e.To
	}
	return 0
}

// doubtLeases is how many leases before the input's beginning reaches it a
// partition begins to ask, with each message, whether that has overtaken it:
// more than one look, which is a lease away, and what a look takes.
const doubtLeases = 3
