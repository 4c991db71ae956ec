package gateway

import (
	"fmt"
	"sync/atomic"
)

// counters are written by the gateway and read by any goroutine.
type counters struct {
	messages                                                                                         [inputs]atomic.Uint64
	refused                                                                                          [inputs]atomic.Uint64
	samples, batches, retries, repeats, unreadable, dropped, missed, forgotten, newStreams, farTimes atomic.Uint64
	held, unwritable                                                                                 atomic.Bool
	waiting, bytes                                                                                   atomic.Int64
}

// Stats are a gateway's counters since its start.
type Stats struct {
	Messages    map[string]uint64 // taken, by input, repeats excluded
	Refused     map[string]uint64 // by input: never taken
	Samples     uint64            // in the messages taken
	Batches     uint64            // numbered
	Retries     uint64            // attempts to republish a failed message
	Repeats     uint64            // messages of devices, accepted before
	Unreadable  uint64            // payloads that could not be decoded: dead letters of the stage
	Dropped     uint64            // UDP packets (on Linux including packets dropped by the system), and QoS 0 messages of another broker, dropped for lack of room
	Missed      uint64            // samples missing from a poll of Modbus
	Forgotten   uint64            // sessions of devices, forgotten because of too many sessions
	NewStreams  uint64            // streams new to the input
	FarTimes    uint64            // samples whose time is before 2000, or more than a day from the clock
	HoldingBack bool              // no device is acknowledged
	Unwritable  bool              // the gateway holds back because the outbox cannot be written
	Waiting     int64             // batches in the outbox
	OutboxBytes int64
}

// Stats may be called at any time.
func (g *Gateway) Stats() Stats {
	c := &g.stats
	s := Stats{
		Messages: map[string]uint64{}, Refused: map[string]uint64{}, Samples: c.samples.Load(), Batches: c.batches.Load(), Retries: c.retries.Load(),
		Repeats: c.repeats.Load(), Unreadable: c.unreadable.Load(), Dropped: c.dropped.Load(), Missed: c.missed.Load(),
		Forgotten: c.forgotten.Load(), NewStreams: c.newStreams.Load(), FarTimes: c.farTimes.Load(), HoldingBack: c.held.Load(), Unwritable: c.unwritable.Load(), Waiting: c.waiting.Load(), OutboxBytes: c.bytes.Load(),
	}
	for i := range inputs {
		s.Messages[i.String()], s.Refused[i.String()] = c.messages[i].Load(), c.refused[i].Load()
	}
	return s
}

// Refuse counts and logs a message refused by an input.
func (g *Gateway) Refuse(in Input, why error) {
	g.stats.refused[in].Add(1)
	g.told.logComplaint("a message is refused", in.String(), why)
}

// Forgotten counts sessions forgotten by an input with too many sessions.
func (g *Gateway) Forgotten(sessions int) { g.stats.forgotten.Add(uint64(sessions)) }

// Lost returns the number of messages lost for lack of room.
func (g *Gateway) Lost() uint64 { return g.stats.dropped.Load() }

// Drop counts a message that cannot wait and is lost for lack of room.
func (g *Gateway) Drop(in Input) {
	g.stats.dropped.Add(1)
	g.told.logComplaint("messages are dropped: the gateway holds back, and UDP and another broker's QoS 0 cannot wait; the next prediction of each stream that comes this way carries the flag gap", in.String(), ErrHeldBack)
}

// DropUnseen counts messages dropped by the system before an input could read the
// messages.
func (g *Gateway) DropUnseen(in Input, messages uint32) {
	g.stats.dropped.Add(uint64(messages))
	g.told.logComplaint("the system has dropped packets before the gateway could read them: its buffer was full; raise its limit (net.core.rmem_max of Linux), or send less at a time; the next prediction of each stream that comes this way carries the flag gap", in.String(), fmt.Errorf("%d packets", messages))
}

// Miss counts and logs samples missing from a poll.
func (g *Gateway) Miss(in Input, samples int, why error) {
	g.stats.missed.Add(uint64(samples))
	g.told.logComplaint("a poll gives no samples of some streams: their next ones carry the flag gap", in.String(), why)
}
