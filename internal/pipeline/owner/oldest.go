package owner

import (
	"context"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

const (
	oldestEvery = 2 * time.Second        // between two questions for the oldest messages
	oldestSoon  = 100 * time.Millisecond // the same, while a partition was never asked about
	oldestValid = 10 * time.Second       // an older answer is ignored
	mostOldest  = 256                    // partitions per request
)

// UnknownLag is an unknown time lag: the server was not asked yet, or does not answer.
const UnknownLag = -1

// OldestWatch asks the server for the oldest stored and unanswered message of each
// partition. The received messages of a worker do not show a consumer that delivers
// nothing, or messages that wait in the server. OldestWatch belongs to one goroutine.
type OldestWatch struct {
	worker *Worker
	next   int // partition to begin with
}

// NewOldestWatch makes the watch of a worker.
func NewOldestWatch(w *Worker) *OldestWatch { return &OldestWatch{worker: w} }

// WatchOldest asks until ctx ends. owned are the partitions of the worker now.
func (w *OldestWatch) WatchOldest(ctx context.Context, owned func() map[int]*Ownership) {
	for last := (time.Time{}); store.Pause(ctx, oldestSoon) == nil; {
		all := owned()
		due := time.Since(last) >= oldestEvery
		for _, t := range all {
			due = due || t.isWorking() && t.Input.oldest.Load() == nil
		}
		if due {
			last = time.Now()
			w.askAll(ctx, all)
		}
	}
}

// isWorking reports whether a partition is read and answered.
func (t *Ownership) isWorking() bool {
	return t.isRebuilt.Load() && !t.failed.Load() && t.ctx.Err() == nil
}

// askAll asks once.
func (w *OldestWatch) askAll(ctx context.Context, owned map[int]*Ownership) {
	var working []int
	for p, t := range owned {
		if t.isWorking() {
			working = append(working, p)
		}
	}
	if len(working) == 0 {
		return
	}
	slices.Sort(working)
	first, _ := slices.BinarySearch(working, w.next)
	answered := make([]uint64, len(working)) // before the request: a message that arrives meanwhile is not counted as old
	for i, p := range working {
		answered[i] = owned[p].answeredTo()
	}
	info, err := w.worker.Server.In.ReadInfo(ctx)
	if err != nil {
		return
	}
	now := time.Now()
	ahead := info.TimeStamp.Sub(now)
	questions := 0
	for i := range working {
		i = (first + i) % len(working)
		t, known := owned[working[i]], answered[i]
		found := &oldest{asked: now, ahead: ahead}
		if known < info.State.LastSeq && t.Input.emptyAfter(known) < info.State.LastSeq {
			if questions++; questions > mostOldest {
				w.next = working[i]
				break
			}
			if found.place, err = w.worker.Server.In.Next(ctx, working[i], known); err != nil {
				continue
			}
		}
		t.Input.oldest.Store(found)
	}
}

// answeredTo returns the last message up to which all messages of the partition are
// answered, including messages of other partitions that the common consumer has passed.
func (t *Ownership) answeredTo() uint64 {
	passed := uint64(0)
	if t.Input.common.Load() {
		passed = t.w.Common.readPosition()
	}
	if t.part.Waiting.Load() > 0 { // after readPosition: messages up to the position are counted
		passed = 0
	}
	return max(t.part.Answered.Load(), passed)
}

// readPosition returns the last message up to which a common consumer has passed all
// messages to their partitions.
func (c *Common) readPosition() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return 0
	}
	return c.now.handed
}

// lagTime returns the age of the oldest stored and unanswered message. 0 = none;
// UnknownLag = no answer from the server.
func (t *Ownership) lagTime(now time.Time) time.Duration {
	waits := t.part.Waiting.Load() > 0
	o := t.Input.oldest.Load()
	current := o != nil && now.Sub(o.asked) <= oldestValid
	if current && o.place.Seq > t.answeredTo() {
		return max(1, now.Add(o.ahead).Sub(time.Unix(0, o.place.Stored)))
	}
	if at := t.Input.Came.Load(); waits && at.Stored > 0 { // at least
		return max(1, now.Sub(time.Unix(0, at.Stored)))
	}
	if current {
		return 0
	}
	return UnknownLag
}
