package owner

import (
	"context"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/nats-io/nats.go/jetstream"
)

// InputWatch checks the input of a worker's working partitions. An InputWatch belongs
// to one goroutine.
type InputWatch struct {
	worker *Worker
	heard  map[int]wire.Place // the last message of each partition at the previous check
	quiet  map[*Ownership]quiet
	breaks uint64 // breaks of connections and consumers at the last successful check
}

// NewInputWatch makes the watch of a worker.
func NewInputWatch(w *Worker) *InputWatch {
	return &InputWatch{worker: w, heard: map[int]wire.Place{}}
}

// Furthest returns the last input message used by any partition.
func Furthest(owned map[int]*Ownership) (seq uint64) {
	for _, t := range owned {
		seq = max(seq, t.Input.Came.Load().Seq)
	}
	return seq
}

// CheckSame requires, after a connection or a consumer has recovered, that each
// partition's last message is unchanged in the input; breaks counts both kinds of
// recovery. A partition without new messages finds a change here; a partition with new
// messages, when its consumer restarts.
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

// LookBehind distinguishes, among partitions without messages while the input's
// beginning is removed, partitions without messages from partitions with lost messages:
// while all input after a partition's last message still exists, it asks the server
// whether any message belongs to the partition. The partition's record stores the
// answer when the empty range has grown by half of the input, even if nothing is
// removed, because removal depends on the records (store.Trim). Partitions near or
// before the input's beginning ask with each message; see Receive.
func (w *InputWatch) LookBehind(ctx context.Context, info *jetstream.StreamInfo, owned map[int]*Ownership) {
	in := info.State
	found := map[*inputView]silence{}
	for _, t := range owned {
		if !t.isRebuilt.Load() || t.failed.Load() {
			continue
		}
		p, v := t.part.State.ID, &t.Input
		known, unread := v.knownLast(), v.unread.Load()
		at := v.Came.Load() // read after the questions: a message in between is not taken for silence
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
	if len(found) > 0 {
		w.noteSilences(ctx, found, (in.LastSeq-in.FirstSeq)/2)
	}
}

// silence is an empty range of a partition, if nothing was removed meanwhile.
type silence struct {
	state.Interval
	known  uint64
	unread int64
}

// noteSilences notes the silences without removed messages. A record stores ranges that
// have grown by more than grown.
func (w *InputWatch) noteSilences(ctx context.Context, found map[*inputView]silence, grown uint64) {
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
		if e.To-max(e.From, v.told.Load()) > grown {
			v.tell.Store(true)
		}
	}
}

// mostQuestions limits the questions of one check; the order of the partitions is
// random.
const mostQuestions = 64
