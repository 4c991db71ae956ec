package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
)

// emitter publishes a shard's answers and commits them. It belongs to one
// goroutine.
type emitter struct {
	js         jetstream.JetStream
	job        string
	encoder    *codec.PredictionEncoder
	committers []*committer // by partition.index
	limit      int          // bytes of an output message's body
	counters   *Counters

	cursor []int // by partition.index: predictions of the batch already published
}

// run publishes batches until in is closed. After an error it only hands
// batches back, so that the shard can end.
func (e *emitter) run(ctx context.Context, in <-chan *batch, free chan<- *batch, fail func(error)) {
	failed := false
	for b := range in {
		if !failed {
			if err := e.publish(ctx, b); err != nil {
				failed = true
				fail(err)
			}
		}
		free <- b // room for every batch there is
	}
}

// publish makes a batch's answers durable: first its dead letters, then the
// predictions with the position that covers both.
func (e *emitter) publish(ctx context.Context, b *batch) error {
	start := time.Now()
	for i := range b.dead {
		if err := e.publishDead(ctx, &b.dead[i]); err != nil {
			return err
		}
	}
	for _, i := range b.touched {
		e.cursor[i] = 0
	}
	for more := true; more; {
		var err error
		if more, err = e.round(ctx, b); err != nil {
			return err
		}
	}
	c := e.counters
	c.commitNS.Add(int64(time.Since(start)))
	c.messages.Add(uint64(b.used))
	c.rows.Add(uint64(b.rows))
	c.bytes.Add(uint64(b.bytes))
	c.early.Add(uint64(b.early))
	c.deadLetters.Add(uint64(len(b.dead)))
	c.waiting.Add(-int64(b.messages))
	return nil
}

// round commits one message on every partition that has something to say,
// side by side, and reports whether any has more. An answer without
// predictions and dead letters needs no commit: a replay repeats it.
func (e *emitter) round(ctx context.Context, b *batch) (more bool, err error) {
	for _, i := range b.touched {
		a, c := &b.answers[i], e.committers[i]
		from := e.cursor[i]
		if from == len(a.preds) && !(a.dead && from == 0 && len(a.preds) == 0 && c.inSeq < a.inSeq) {
			e.cursor[i] = -1
			continue
		}
		body, to, err := e.encode(a, from)
		if err != nil {
			return false, err
		}
		c.begin(body, advanceTo(c.position, a, from, to))
		e.cursor[i] = to
	}
	for _, i := range b.touched {
		if e.cursor[i] < 0 {
			continue
		}
		c := e.committers[i]
		before := c.outs
		if err := c.await(ctx); err != nil {
			return false, err
		}
		e.counters.commits.Add(1)
		e.counters.predictions.Add(c.outs - before)
		more = more || e.cursor[i] < len(b.answers[i].preds)
	}
	return more, nil
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
		if a.at[k] < a.at[to] {
			p.inSeq, p.ahead = a.at[k], uint64(to-1-k)
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
func boundary(at []uint64, from, to int) int {
	if to == len(at) {
		return to
	}
	for k := to; k > from; k-- {
		if at[k-1] != at[k] {
			return k
		}
	}
	return to
}

// publishDead sends a message to the dead letters with its reason. The body is
// cut only where the server would take nothing else; the original is still in
// the input under Eusn-In-Seq.
func (e *emitter) publishDead(ctx context.Context, d *deadLetter) error {
	h, size := nats.Header{}, 0
	for k, v := range d.job.header {
		if strings.HasPrefix(k, "Nats-") {
			k = "Eusn-In-" + k // the server would obey it again
		}
		h[k] = v
		size += len(k) + 16 + len(strings.Join(v, "")) + 4*len(v)
	}
	h.Set(headerError, firstBytes(d.reason, maxReason))
	h.Set(headerInSeq, strconv.FormatUint(d.job.seq, 10))
	h.Set(headerInSubject, d.job.subject)
	h.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s.%d.%d", e.job, d.job.part.id, d.job.seq))
	msg := &nats.Msg{Subject: deadLetterSubject(e.job, d.job.part.id), Header: h, Data: d.job.data}
	if most := e.limit - size; len(msg.Data) > most {
		msg.Data = msg.Data[:max(0, most)]
		h.Set(headerTruncated, strconv.Itoa(len(d.job.data)))
	}
	return publishOnce(ctx, e.js, msg, func() { e.counters.retries.Add(1) })
}

func firstBytes(s string, n int) string {
	clean := []byte(s[:min(n, len(s))])
	for i, c := range clean {
		if c < ' ' {
			clean[i] = ' ' // a header is one line
		}
	}
	return string(clean)
}
