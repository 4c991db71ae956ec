package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// tenure is the time between a claim of a partition and its end: released,
// taken over by another worker (fenced), or stopped by an error. It has a
// goroutine of its own, which claims, restores, reads and ends.
type tenure struct {
	*run
	part  *partition
	shard *shard
	c     *committer

	ctx  context.Context // ends when the partition is to be given up
	stop context.CancelFunc

	failed    atomic.Bool // nothing more of it may be committed
	reason    error       // why, behind failed's mu
	mu        sync.Mutex
	closed    chan struct{}           // nothing of it is in the stage any more
	ended     chan struct{}           // run has returned
	waiting   atomic.Pointer[waiting] // for the server to take something; nil = for nothing
	uploading atomic.Bool             // a snapshot is
	ready     atomic.Pointer[stored]
	saved     atomic.Uint64   // last input message of the snapshot in the record
	found     string          // the snapshot that the claim found; written before epoch
	kept      map[uint64]bool // the stored rows it names
	freed     []freedRows     // behind mu, in order
	epoch     atomic.Uint64   // 0 before the claim

	reading, rebuilt atomic.Bool // how far it has come, for Status
	unsaved          atomic.Int64
	answered         uint64 // last input message answered after a replay; the emitter's
}

// stored is a snapshot in the store that no record names yet.
type stored struct {
	name string
	seq  uint64
	at   time.Time // no message was answered later that it holds
}

// fail ends a tenure: what it says from now on is dropped.
func (t *tenure) fail(err error) {
	t.mu.Lock()
	if t.reason == nil {
		t.reason = err
	}
	t.mu.Unlock()
	t.failed.Store(true)
	t.stop()
}

func (t *tenure) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason
}

// note takes down what Status says of the age of what no snapshot holds.
// What was answered before the tenure and is replayed has no age here.
func (t *tenure) note(seq uint64, now time.Time) {
	if seq <= t.part.replayTo || t.failed.Load() {
		return
	}
	t.answered = seq
	if seq > t.saved.Load() && t.unsaved.Load() == 0 {
		t.unsaved.Store(now.UnixNano())
	}
}

// named reports whether a snapshot waits to be named by a commit.
func (t *tenure) named() bool { return t.ready.Load() != nil }

// hold claims the partition and works on it until t.ctx ends, then gives it
// up in order. started is called when it is being read.
func (t *tenure) hold(started func()) {
	defer close(t.ended)
	if err := t.begin(); err != nil {
		err = t.c.overtaken(t.ctx, err)
		if t.ctx.Err() == nil {
			t.fail(err)
		} else {
			t.giveBack()
		}
		return
	}
	orphans, err := t.snaps.orphans(t.ctx, t.part.id, t.epoch.Load(), t.kept)
	if err != nil {
		t.log.Debug("state rows not counted: what others left is swept after the next claim", "partition", t.part.id, "err", err)
	}
	if !t.send(job{part: t.part, order: orderOpen}) {
		return
	}
	consumer, err := t.read()
	if err != nil && t.ctx.Err() == nil {
		t.fail(err)
	}
	if err == nil {
		t.counters.claims.Add(1)
		t.counters.owned.Add(1)
		defer t.counters.owned.Add(-1)
		t.reading.Store(true)
		started()
		t.snaps.sweepRows(t.ctx, orphans, t.part.id, t.epoch.Load(), t.kept, t.log)
	}
	<-t.ctx.Done()
	if consumer != nil {
		consumer.end(leaveDeadline)
	}
	if t.send(job{part: t.part, order: orderClose}) {
		select {
		case <-t.closed:
			t.excuse()
		case <-t.workers.Done():
		}
	}
}

// giveBack releases a partition that was claimed but not begun with: its
// record stands as it was found.
func (t *tenure) giveBack() {
	if t.c.last == 0 { // nor claimed
		return
	}
	next := t.c.record
	next.kind = kindReleased
	t.c.begin(t.empty, next)
	if err := t.c.await(t.shard.last); err != nil && !errors.Is(err, errFenced) {
		t.fail(err)
	}
}

// send passes an order to the shard; false if that has ended.
func (t *tenure) send(j job) bool {
	select {
	case t.shard.queue <- j:
		return true
	case <-t.workers.Done():
		return false
	}
}

// begin claims the partition, checks the input and restores the state.
func (t *tenure) begin() error {
	patience := t.now().Add(t.cfg.Lease)
	err := t.c.claim(t.ctx, t.empty, func(r record) bool {
		return r.kind != kindReleased && t.members.others(r.worker) && t.now().Before(patience)
	})
	if err != nil {
		return err
	}
	t.taken()
	t.found = t.c.snap
	t.epoch.Store(t.c.epoch) // from here on the manager's sweep reads found
	if err := t.checkInput(t.ctx); err != nil {
		return err
	}
	if t.c.snap != "" {
		if err := t.restore(); err != nil {
			return err
		}
	}
	if t.part.replayTo > t.part.done {
		t.counters.replaying.Add(1)
	}
	return nil
}

// checkInput compares the input with what the record says of it, and decides
// from where to replay.
func (t *tenure) checkInput(ctx context.Context) error {
	info, err := t.inputInfo(ctx)
	if err != nil {
		return err
	}
	c, p, name := t.c, t.part, inputStream(t.cfg.Job)
	created := createdText(info.Created)
	if c.created != "" && c.created != created {
		return fmt.Errorf("pipeline: %s answers an input created %s, but %s was created %s: it was deleted and made anew; use a new job name, or delete %s too",
			c.subject(), c.created, name, created, outputStream(t.cfg.Job))
	}
	c.created = created
	p.replayTo, p.skip, p.verifyAt, p.want = c.inSeq, c.ahead, c.mark.seq, c.mark.digest
	in := info.State
	switch {
	case in.LastSeq < c.inSeq:
		return fmt.Errorf("pipeline: %s ends at message %d, but %s answers message %d: the input lost its tail; restore its store, or start a new job",
			name, in.LastSeq, c.subject(), c.inSeq)
	case c.inSeq > c.snapSeq && in.FirstSeq > c.inSeq:
		return fmt.Errorf("pipeline: %s begins at message %d, but partition %d needs those from %d to %d to rebuild its state: keep more input (max_age, max_bytes) than is stored between two snapshots; restore its store, or start a new job",
			name, in.FirstSeq, p.id, c.snapSeq+1, c.inSeq)
	case c.inSeq == 0 && in.FirstSeq > 1:
		p.lossy = true
		t.log.Warn("input does not begin with its first message: predictions of sequences that may lack samples are flagged as gaps", "partition", p.id, "first", in.FirstSeq)
	}
	if c.inSeq > 0 && in.FirstSeq > c.inSeq+1 {
		t.log.Warn("input behind the last answered message has aged away: if this partition had any there, nobody has read it; keys that number their messages are flagged", "partition", p.id, "answered", c.inSeq, "first", in.FirstSeq)
	}
	return t.checkMark(ctx, in.FirstSeq)
}

// checkMark makes sure that the input message the digest belongs to is the
// one it was: another time of storing means another history, a restored
// backup for instance. Once removed by age it cannot be asked for.
func (t *tenure) checkMark(ctx context.Context, first uint64) error {
	m := t.c.mark
	if m.seq < first || m.seq == 0 {
		return nil
	}
	msg, err := t.inputMessage(ctx, m.seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return fmt.Errorf("pipeline: message %d of %s, which partition %d has answered, was deleted: restore the store, or start a new job", m.seq, inputStream(t.cfg.Job), t.part.id)
	case err != nil:
		return err
	case msg.Time.UnixNano() != m.time:
		return fmt.Errorf("pipeline: message %d of %s was stored %s, but partition %d has answered one stored %s: the input is not the one it was (a restored backup?); restore the right one, or start a new job",
			m.seq, inputStream(t.cfg.Job), createdText(msg.Time), t.part.id, createdText(time.Unix(0, m.time)))
	}
	return nil
}

// inputMessage asks for an input message until the server answers.
func (t *tenure) inputMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := t.link.attempt(ctx)
		msg, err := t.in.GetMsg(try, seq)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
			return msg, err
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
}

// inputInfo asks for the input's identity and range until the server answers,
// and gives a cluster's new leader time to know its own end.
func (t *tenure) inputInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	var late time.Time
	for {
		try, cancel := t.link.attempt(ctx)
		info, err := t.in.Info(try)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("pipeline: NATS stream %s is gone: restore it, or delete %s too and begin anew", inputStream(t.cfg.Job), outputStream(t.cfg.Job))
		}
		if err == nil {
			if late.IsZero() {
				late = time.Now().Add(staleGrace)
			}
			if info.State.LastSeq >= t.c.inSeq || info.Config.Replicas <= 1 || time.Now().After(late) {
				return info, nil
			}
		}
		if err := pause(ctx, retryWait); err != nil {
			return nil, err
		}
	}
}

// restore reads the snapshot that the record names.
func (t *tenure) restore() error {
	c := t.c
	for {
		b, err := t.snaps.get(t.ctx, c.snap)
		switch {
		case err == nil:
			p, err := decodeSnapshot(b, t.shard.shape, t.part.id)
			if err == nil && p.done != c.snapSeq {
				err = fmt.Errorf("pipeline: it is of input message %d, the record says %d", p.done, c.snapSeq)
			}
			if err != nil {
				return fmt.Errorf("pipeline: snapshot %s in %s cannot be used: %w; restore the store, or start a new job", c.snap, t.snaps.bucket, err)
			}
			t.saved.Store(p.done)
			t.kept = p.stored()
			t.part.restored(p, t.cfg.Job)
			t.counters.restores.Add(1)
			return nil
		case lostSnapshot(err):
			return fmt.Errorf("pipeline: snapshot %s in %s, which partition %d begins from, is lost: %w; restore the store, or start a new job", c.snap, t.snaps.bucket, t.part.id, err)
		}
		t.log.Warn("snapshot cannot be read, trying again", "name", c.snap, "err", err)
		if err := pause(t.ctx, retryWait); err != nil {
			return err
		}
	}
}

// restored takes over what a snapshot holds.
func (p *partition) restored(from *partition, jobName string) {
	p.sources, p.clock, p.lossy = from.sources, from.clock, p.lossy || from.lossy
	p.done, p.doneTime, p.heldBytes = from.done, from.doneTime, from.heldBytes
	p.away = from.away
	p.dirty, p.dirtySources = from.dirty, from.dirtySources
	p.recency.Init()
	for e := from.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		st.element = p.recency.PushBack(st)
	}
	for _, src := range p.sources {
		for i := range src.held {
			src.held[i].job.part = p
			src.held[i].job.subject = fmt.Sprintf("%s.in.%d.%s", jobName, p.id, src.key)
		}
	}
}

// consumerAttempts is how often the server may refuse a consumer; one that
// does not answer is asked until the tenure ends.
const consumerAttempts = 10

// read starts the partition's consumer behind what the snapshot holds.
func (t *tenure) read() (*reader, error) {
	for attempt := 1; ; attempt++ {
		js, err := t.reader(t.part.id)
		if err != nil {
			return nil, err
		}
		r, err := receive(t.ctx, js, t.cfg.Job, t.part, t.saved.Load()+1, t.pull, t.shard, t.fail)
		if err == nil || t.ctx.Err() != nil {
			return r, err
		}
		var refused *jetstream.APIError
		if errors.As(err, &refused) && attempt >= consumerAttempts {
			return nil, fmt.Errorf("%w (refused %d times)", err, attempt)
		}
		t.log.Warn("consumer cannot be made, trying again", "partition", t.part.id, "attempt", attempt, "err", err)
		if err := pause(t.ctx, retryWait); err != nil {
			return nil, err
		}
	}
}

// upload stores a snapshot taken after seq; the next commit names it.
func (t *tenure) upload(ctx context.Context, epoch, seq uint64, b []byte) error {
	name := snapshotName(t.part.id, epoch, seq)
	begin := time.Now()
	if err := t.snaps.put(ctx, name, b); err != nil {
		return err
	}
	took := time.Since(begin)
	t.counters.snapshots.Add(1)
	t.counters.snapshotBytes.Add(uint64(len(b)))
	t.counters.snapshotNS.Add(int64(took))
	t.log.Debug("snapshot stored", "name", name, "bytes", len(b), "took", took)
	t.ready.Store(&stored{name, seq, begin})
	return nil
}
