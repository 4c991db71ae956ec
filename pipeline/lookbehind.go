package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// knows is what a partition knows of the input: up to this message, it has
// read all that is its own.
func (p *partition) knows() uint64 {
	n := p.state.ReplayTo
	if seq := p.came.load().Seq; seq > p.rests { // what a split commit rests on lies behind the state
		n = max(n, seq)
	}
	if e := p.empty.Load(); e != nil {
		n = max(n, e.To)
	}
	return n
}

// emptyAfter is up to where the partition is known to have no input behind its
// message seq; 0 = not known.
func (p *partition) emptyAfter(seq uint64) uint64 {
	if e := p.empty.Load(); e != nil && e.From == seq {
		return e.To
	}
	return 0
}

// lookBehind keeps apart, of partitions that hear nothing while the input's
// beginning is removed, those that had no message from those that have lost
// some: while all that lies behind a partition's last message is still there,
// it asks whether any of it is the partition's. The partition's record says so
// when half of the input lies behind what it said before. Partitions that the
// input's beginning draws near to, or has passed, ask with each message; see
// receive.
func (w *streamMonitor) lookBehind(ctx context.Context, info *jetstream.StreamInfo) {
	in := info.State
	type silence struct {
		state.Interval
		known uint64
	}
	found := map[*partition]silence{} // what is so if nothing was removed meanwhile
	for _, t := range w.ownerships() {
		if !t.rebuilt.Load() || t.failed.Load() {
			continue
		}
		p := t.part
		at, known := p.came.load(), p.knows()
		p.doubt.Store(in.FirstSeq > known+1 || w.overtakes(info, at))
		silent := w.heard[p.state.ID] == at
		w.heard[p.state.ID] = at
		if silent && in.FirstSeq <= known+1 && known < in.LastSeq && len(found) < mostQuestions && !w.follow(ctx, p.state.ID, known) {
			found[p] = silence{state.Interval{From: at.Seq, To: in.LastSeq}, known}
		}
	}
	if len(found) == 0 {
		return
	}
	try, cancel := w.link.Attempt(ctx)
	defer cancel()
	now, err := w.in.Info(try)
	if err != nil {
		return
	}
	for p, e := range found {
		if now.State.FirstSeq > e.known+1 {
			continue
		}
		p.empty.Store(&e.Interval)
		if removed := info.Config.MaxAge > 0 || in.FirstSeq > 1; removed && e.To-max(e.From, p.told.Load()) > (in.LastSeq-in.FirstSeq)/2 {
			p.tell.Store(true)
		}
	}
}

// overtakes reports whether the input's beginning may reach a message by age
// before the next look but one. The times are the server's.
func (r *run) overtakes(info *jetstream.StreamInfo, at wire.Place) bool {
	age := info.Config.MaxAge
	return age > 0 && info.TimeStamp.Sub(time.Unix(0, at.Stored))+doubtLeases*r.cfg.Lease > age
}

const (
	// doubtLeases is how many leases before the input's beginning reaches it a
	// partition begins to ask, with each message, whether that has overtaken it:
	// more than one look, which is a lease away, and what a look takes.
	doubtLeases = 3
	// mostQuestions bounds what a look asks; which partitions come first is
	// left to chance.
	mostQuestions = 64
)

// follow reports whether the input may hold a message of a partition behind
// known.
func (r *run) follow(ctx context.Context, part int, known uint64) bool {
	try, cancel := r.link.Attempt(ctx)
	defer cancel()
	_, err := r.in.GetMsg(try, known+1, jetstream.WithGetMsgSubject(wire.InputFilter(r.cfg.Job, part)))
	return !errors.Is(err, jetstream.ErrMsgNotFound)
}
