package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

const (
	// headerRoom is kept free in an output message for its headers.
	headerRoom = 4 << 10
	// predictionBytes is a prediction's size without name and scores, padding
	// included: a first guess of what fits.
	predictionBytes = 40
	maxReason       = 1 << 10 // bytes of a dead letter's reason
	// copiedHeaders is how many bytes of an input message's headers its dead
	// letter repeats. With ours added to 64 kB of them the server would refuse
	// the dead letter; Config.MaxMessage leaves room for this much.
	copiedHeaders = 8 << 10
)

// emitter publishes a shard's answers and commits them. It belongs to one
// goroutine.
type emitter struct {
	js       jetstream.JetStream
	link     *link // of js
	job      string
	encoder  *codec.PredictionEncoder
	limit    int // bytes of an output message's body
	counters *Counters
	releases sync.WaitGroup // uploads and last records, each in its goroutine

	commits int   // of the batch in hand
	cursor  []int // by partition.index: predictions of the batch already published, -1 = nothing more to say
}

// run publishes batches until in is closed.
func (e *emitter) run(ctx context.Context, in <-chan *batch, free chan<- *batch) {
	for b := range in {
		e.publish(ctx, b)
		free <- b // room for every batch there is
	}
	e.releases.Wait()
}

// publish makes a batch's answers durable: first its dead letters, then the
// predictions with the position that covers both. What goes wrong concerns one
// partition, and ends its tenure.
func (e *emitter) publish(ctx context.Context, b *batch) {
	start := time.Now()
	for i := range b.dead {
		d := &b.dead[i]
		if d.job.part.failed() {
			continue
		}
		if err := e.publishDead(ctx, d); err != nil {
			d.job.part.tenure.fail(err)
			continue
		}
		e.counters.deadLetters[d.why].Add(1)
	}
	for _, i := range b.touched {
		e.cursor[i] = 0
	}
	e.commits = 0
	for more := true; more; {
		more = e.round(ctx, b)
	}
	for _, i := range b.touched {
		a := &b.answers[i]
		a.part.tenure.note(a.inSeq, start)
		e.finish(ctx, a)
	}
	c, took := e.counters, int64(time.Since(start))
	c.commitNS.Add(took)
	if e.commits > 0 {
		c.commitTime.add(commitBounds, took)
	}
	c.messages.Add(uint64(b.used))
	c.rows.Add(uint64(b.rows))
	c.bytes.Add(uint64(b.bytes))
	c.early.Add(uint64(b.early))
	for _, i := range b.touched { // last: when nothing waits, all is counted
		a := &b.answers[i]
		a.part.waiting.Add(-int64(a.messages))
	}
}

// round commits one message on every partition that has something to say,
// side by side, and reports whether any has more. An answer without
// predictions and dead letters needs no commit: a replay repeats it.
func (e *emitter) round(ctx context.Context, b *batch) (more bool) {
	for _, i := range b.touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.answers[i]
		t, from := a.part.tenure, e.cursor[i]
		due := from < len(a.preds) || from == 0 && (a.dead && t.c.inSeq < a.inSeq || a.commit && t.c.inSeq <= a.inSeq)
		if !due || a.part.failed() {
			e.cursor[i] = -1
			continue
		}
		body, to, err := e.encode(a, from)
		if err != nil {
			t.fail(err)
			e.cursor[i] = -1
			continue
		}
		t.c.begin(body, t.c.advance(a, from, to, t.ready.Load()))
		e.cursor[i] = to
	}
	for _, i := range b.touched {
		if e.cursor[i] < 0 {
			continue
		}
		a := &b.answers[i]
		t, to := a.part.tenure, e.cursor[i]
		outs := t.c.outs
		if err := e.await(ctx, t); err != nil {
			t.fail(err)
			e.cursor[i] = -1
			continue
		}
		e.commits++
		e.counters.grade(a.preds[to-int(t.c.outs-outs) : to])
		if e.cursor[i] == len(a.preds) {
			e.cursor[i] = -1
		}
		more = more || e.cursor[i] >= 0
	}
	return more
}

// await waits for a commit, and deletes the snapshot that it put out of use.
func (e *emitter) await(ctx context.Context, t *tenure) error {
	snap := t.c.snap
	if err := t.c.await(ctx); err != nil {
		return err
	}
	e.counters.commits.Add(1)
	t.taken()
	if t.c.snap != snap {
		t.saved.Store(t.c.snapSeq)
		if now := t.ready.Load(); now != nil && now.name == t.c.snap {
			t.unsaved.Store(0)
			if t.answered > now.seq {
				t.unsaved.Store(now.at.UnixNano())
			}
			t.ready.CompareAndSwap(now, nil)
		}
		rows := t.freedBy(t.c.snapSeq)
		if snap != "" || len(rows) > 0 { // rows may come and go before the first snapshot
			e.releases.Go(func() {
				if snap != "" {
					t.snaps.remove(ctx, snap, t.log)
				}
				t.snaps.removeRows(ctx, rows, t.log)
			})
		}
	}
	return nil
}

// finish uploads the snapshot of an answer whose commit is out, and gives the
// partition up where this was its last. Both happen beside the next batches.
func (e *emitter) finish(ctx context.Context, a *answer) {
	t, b, seq := a.part.tenure, a.snapshot, a.inSeq
	switch {
	case a.close:
		at := mark{a.inSeq, a.inTime, a.digest}
		e.releases.Go(func() {
			defer close(t.closed)
			if !t.failed.Load() {
				e.release(ctx, t, at, b)
			}
		})
	case b != nil && t.failed.Load():
		t.uploading.Store(false)
	case b != nil:
		epoch := t.c.epoch
		e.releases.Go(func() {
			defer t.uploading.Store(false)
			if err := t.upload(ctx, epoch, seq, b); err != nil && ctx.Err() == nil {
				t.log.Warn("snapshot not stored; the next one may be", "partition", t.part.id, "err", err)
			}
		})
	}
}

// release stores a partition's last state and says in its last record that
// whoever claims it next need not wait. The snapshot under way, if there is
// one, is waited for: it may be the last.
func (e *emitter) release(ctx context.Context, t *tenure, at mark, b []byte) {
	for t.uploading.Load() && ctx.Err() == nil {
		_ = pause(ctx, time.Millisecond)
	}
	next := t.c.record
	next.kind = kindReleased
	if b != nil {
		err := t.upload(ctx, t.c.epoch, at.seq, b)
		switch {
		case err != nil && ctx.Err() == nil:
			t.log.Warn("last snapshot not stored: the next owner replays more", "partition", t.part.id, "err", err)
		case err == nil:
			next.inSeq, next.ahead, next.mark = at.seq, 0, at
		}
	}
	if now := t.ready.Load(); now != nil && now.seq <= next.mark.seq {
		next.snap, next.snapSeq = now.name, now.seq
	}
	t.c.begin(t.empty, next)
	if err := e.await(ctx, t); err != nil && !errors.Is(err, errFenced) {
		t.fail(err)
	}
}

// advance is the record once the answer's predictions [from, to) are out. It
// names the snapshot that was stored meanwhile.
func (c *committer) advance(a *answer, from, to int, now *stored) record {
	r := c.record
	r.kind, r.position = kindCommit, advanceTo(r.position, a, from, to)
	if to == len(a.preds) {
		r.mark = mark{a.inSeq, a.inTime, a.digest}
	}
	if now != nil && now.seq <= r.mark.seq {
		r.snap, r.snapSeq = now.name, now.seq
	}
	return r
}

// advanceTo is the position once the answer's predictions [from, to) are out.
func advanceTo(p position, a *answer, from, to int) position {
	p.outs += uint64(to - from)
	if to == len(a.preds) {
		p.inSeq, p.ahead = a.inSeq, 0
		return p
	}
	// The last input all of whose predictions are out, if there is one.
	for k := to - 1; k >= from; k-- {
		if a.at[k].seq < a.at[to].seq {
			p.inSeq, p.ahead = a.at[k].seq, uint64(to-1-k)
			return p
		}
	}
	p.ahead += uint64(to - from)
	return p
}

// encode writes as many predictions from on as fit one message, up to an
// input message's last if possible, and returns where it stopped.
func (e *emitter) encode(a *answer, from int) (body []byte, to int, err error) {
	size, to := 0, from
	for ; to < len(a.preds) && size <= e.limit; to++ {
		size += predictionBytes + len(a.preds[to].Stream) + 4*len(a.preds[to].Scores)
	}
	for {
		payload, err := e.encoder.Encode(a.preds[from:boundary(a.at, from, to)])
		if err != nil {
			return nil, 0, fmt.Errorf("pipeline: predictions: %w", err)
		}
		to = boundary(a.at, from, to)
		if len(payload) <= e.limit {
			return append([]byte(nil), payload...), to, nil
		}
		if to-from <= 1 {
			return nil, 0, fmt.Errorf("pipeline: one prediction takes %d bytes, the server takes messages of %d: raise its max_payload", len(payload), e.limit)
		}
		to = from + (to-from)/2
	}
}

// boundary moves to back to the end of an input message's predictions, unless
// none of [from, to) is one.
func boundary(at []place, from, to int) int {
	if to == len(at) {
		return to
	}
	for k := to; k > from; k-- {
		if at[k-1].seq != at[k].seq {
			return k
		}
	}
	return to
}

// publishDead sends a message to the dead letters with its reason. The body is
// cut only where the server would take nothing else; the original is still in
// the input under Eusn-In-Seq.
func (e *emitter) publishDead(ctx context.Context, d *deadLetter) error {
	h, dropped := copyHeaders(d.job.header, copiedHeaders)
	if dropped > 0 {
		h.Set(headerDropped, strconv.Itoa(dropped))
	}
	h.Set(headerError, d.reason)
	h.Set(headerInSeq, strconv.FormatUint(d.job.seq, 10))
	h.Set(headerInSubject, d.job.subject)
	h.Set(jetstream.MsgIDHeader, deadLetterID(e.job, d))
	msg := &nats.Msg{Subject: deadLetterSubject(e.job, d.job.part.id), Header: h, Data: d.job.data}
	most := e.limit + headerRoom
	if len(msg.Data) > most-headerBytes(h) {
		h.Set(headerTruncated, strconv.Itoa(len(d.job.data)))
		msg.Data = msg.Data[:max(0, most-headerBytes(h))]
	}
	t := d.job.part.tenure
	err := publishOnce(ctx, e.js, e.link, msg, func(err error) error {
		e.counters.retries.Add(1)
		return t.waits("dead letter on "+msg.Subject, err)
	})
	if err == nil {
		t.taken()
	}
	return err
}

// deadLetterID is the same for each attempt to publish a dead letter. A message
// that came with an imported state has no place in the input, but a number
// among its key's.
func deadLetterID(job string, d *deadLetter) string {
	if d.job.seq == 0 {
		return fmt.Sprintf("%s.%d.0.%s.%s", job, d.job.part.id, d.job.key, d.job.header.Get(HeaderSeq))
	}
	return fmt.Sprintf("%s.%d.%d", job, d.job.part.id, d.job.seq)
}

// copyHeaders returns the headers of an input message that fit a budget of
// bytes, in alphabetical order so that a repeat drops the same, and how many
// do not.
func copyHeaders(from nats.Header, budget int) (h nats.Header, dropped int) {
	h = nats.Header{}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		name := k
		if strings.HasPrefix(k, "Nats-") {
			name = "Eusn-In-" + k // the server would obey it again
		}
		size := headerBytes(nats.Header{name: from[k]})
		if size > budget {
			dropped++
			continue
		}
		budget -= size
		h[name] = from[k]
	}
	return h, dropped
}

// headerBytes is what headers take on the wire: a line "name: value" for each
// value, and the first and the last line.
func headerBytes(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// oneLine makes a header or a log line of a text: at most n bytes of UTF-8
// without control characters.
func oneLine(s string, n int) string {
	clean := []byte(s[:min(n, len(s))])
	for i, c := range clean {
		if c < ' ' {
			clean[i] = ' '
		}
	}
	return strings.ToValidUTF8(string(clean), "")
}
