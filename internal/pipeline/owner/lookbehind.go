package owner

import (
	"context"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/nats-io/nats.go/jetstream"
)

// InputWatch looks after the input of a worker's partitions while they work. It
// belongs to one goroutine.
type InputWatch struct {
	worker *Worker
	heard  map[int]wire.Place // what each partition stood on at the last look
	quiet  map[*Ownership]quiet
	breaks uint64 // of connections and consumers, when all was last found to be as it was
}

// NewInputWatch makes the watch of a worker, which has seen nothing yet.
func NewInputWatch(w *Worker) *InputWatch {
	return &InputWatch{worker: w, heard: map[int]wire.Place{}}
}

// Furthest is the last input message that any partition stands on.
func Furthest(owned map[int]*Ownership) (seq uint64) {
	for _, t := range owned {
		seq = max(seq, t.Input.Came.Load().Seq)
	}
	return seq
}

// CheckSame makes sure, after a connection or a consumer had to recover, that each
// partition's last message is still the one it was; breaks counts both. A
// partition that hears nothing more finds it out here; one that does, when its
// consumer starts again.
func (w *InputWatch) CheckSame(ctx context.Context, breaks uint64, owned map[int]*Ownership) {
	if breaks == w.breaks {
		return
	}
	for _, t := range owned {
		if !t.reading.Load() || t.failed.Load() {
			continue // a claim looks by itself
		}
		if err := w.worker.Server.In.CheckUnchanged(ctx, t.part.State.ID, t.Input.Came.Load()); err != nil && ctx.Err() == nil {
			t.Fail(err)
		}
	}
	w.breaks = breaks
}

// LookBehind keeps apart, of partitions that hear nothing while the input's
// beginning is removed, those that had no message from those that have lost
// some: while all that lies behind a partition's last message is still there,
// it asks whether any of it is the partition's. The partition's record says so
// when half of the input lies behind what it said before: also while nothing is
// removed, because who wants to remove something goes by the records (store.Trim). Partitions that the
// input's beginning draws near to, or has passed, ask with each message; see
// receive.
func (w *InputWatch) LookBehind(ctx context.Context, info *jetstream.StreamInfo, owned map[int]*Ownership) {
	in := info.State
	type silence struct {
		state.Interval
		known  uint64
		unread int64
	}
	found := map[*inputView]silence{} // what is so if nothing was removed meanwhile
	for _, t := range owned {
		if !t.isRebuilt.Load() || t.failed.Load() {
			continue
		}
		p, v := t.part.State.ID, &t.Input
		known, unread := v.knownLast(), v.unread.Load()
		at := v.Came.Load() // after those: a message that comes between is not taken for silence
		v.Doubt.Store(in.FirstSeq > known+1 || store.Overtakes(info, at, doubtLeases*w.worker.Lease))
		silent := w.heard[p] == at
		w.heard[p] = at
		if silent && at.Seq >= in.LastSeq {
			v.noteIdle(unread)
		}
		if silent && in.FirstSeq <= known+1 && known < in.LastSeq && len(found) < mostQuestions {
			if next, err := w.worker.Server.In.Next(ctx, p, known); err != nil || next.Seq > 0 {
				continue
			}
			found[v] = silence{state.Interval{From: at.Seq, To: in.LastSeq}, known, unread}
		}
	}
	if len(found) == 0 {
		return
	}
	try, cancel := w.worker.Server.Link.Attempt(ctx)
	defer cancel()
	now, err := w.worker.Server.In.Stream.Info(try)
	if err != nil {
		return
	}
	for v, e := range found {
		if now.State.FirstSeq > e.known+1 {
			continue
		}
		v.empty.Store(&e.Interval)
		v.noteIdle(e.unread)
		if e.To-max(e.From, v.told.Load()) > (in.LastSeq-in.FirstSeq)/2 {
			v.tell.Store(true)
		}
	}
}

// mostQuestions bounds what a look asks; which partitions come first is
// left to chance.
const mostQuestions = 64
