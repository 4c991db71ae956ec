package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

const (
	// keptValues are those of a sequence that are kept, to hold a channel.
	keptValues = 1 << 22
	// mostAlike are predictions of a message that only their order tells apart.
	mostAlike = 512
	// beyond are those that the next message may have, where a message ends in the
	// middle of an input message's.
	beyond = 64
)

// Explainer explains predictions of a job.
type Explainer struct {
	JS jetstream.JetStream
	// Job has the configuration and the engines of the job's stage. Its Model may be
	// nil: the job's registry has it.
	Job      pipeline.Job
	Features int // how many of the strongest features are listed
	// Stretches is into how many parts the samples are divided at most, to hold one at a
	// time; fewer where that is too much to compute.
	Stretches int
	Progress  func(replay.PastDone)
}

// Explain computes a prediction again and says what made it. Where that is not
// possible, Again.Why says why, and the rest says what the output knows.
func (x *Explainer) Explain(ctx context.Context, f Found) (*Explanation, error) {
	m, err := x.models(ctx, &f)
	if err != nil {
		return nil, err
	}
	e := describe(&f, m)
	p := &pass{found: &f, to: max(f.record.InSeq, f.record.Rests.Seq), ring: f.same}
	switch {
	case m.linear == nil:
		e.Again.Why = m.why
		return e, nil
	case f.same > mostAlike:
		e.Again.Why = fmt.Sprintf("the output message has %d predictions of this stream that have the same seq, row and time: which of the log's is this one cannot be told", f.same)
		return e, nil
	case f.record.Rests.Seq > 0:
		p.ring += beyond
	}
	m.linear = m.linear.For(f.Prediction.Flags&outcome.FlagEarly != 0)
	done, err := p.run(ctx, x, m)
	if err != nil {
		return nil, err
	}
	if e.Again.replaced, err = replaced(ctx, x.JS, &f); err != nil {
		return nil, err
	}
	e.Again.from(&f, done)
	c := p.pick(m.linear)
	if c == nil {
		e.Again.Why = "the log gives no such prediction: " + e.Again.reason(done)
		if done.Snapshot != "" && !e.Again.otherInput {
			e.Again.Why = fmt.Sprintf("the log gives no such prediction: the log begins with message %d, and snapshot %s, after message %d, may be behind the sequence", done.First, done.Snapshot, done.After)
		}
		return e, nil
	}
	e.Samples = samplesOf(&c.q)
	e.Again.compare(&f, c, m.linear, done)
	if m.linear.Detects {
		e.HeldWhy = "the readout knows no faults, and answers by how unlike the training the sequence is: that is a distance, of which no member and no channel has a share"
		return e, nil
	}
	if m.linear.Interval != nil {
		e.HeldWhy = "the prediction is a number: only what makes a class can be taken apart"
		return e, nil
	}
	e.Score = m.score(c, x.Features)
	e.Values = valuesOf(&c.q)
	e.Held, e.Stretches, e.HeldWhy, err = m.hold(ctx, &c.q, e.Score, e.Again.Scores, x.Stretches)
	return e, err
}

// pass is a reading of the log.
type pass struct {
	found *Found
	to    uint64
	ring  int
	last  []candidate // predictions of the same place, the last ones
}

// candidate is a sequence of the log.
type candidate struct {
	q        replay.Sequence
	features []float32
}

func (p *pass) run(ctx context.Context, x *Explainer, m *models) (replay.PastDone, error) {
	return replay.ReadPast(ctx, x.JS, &m.job, replay.Past{
		Partition: p.found.Partition, To: p.to, Network: m.network, Keep: keptValues, Progress: x.Progress,
		Stream: func(name string) bool { return name == p.found.Prediction.Stream },
		Want: func(q *replay.Sequence) bool {
			return q.In <= p.to && samePlace(&q.Prediction, &p.found.Prediction)
		},
		Take: func(q *replay.Sequence, features []float32) error {
			if len(p.last) == p.ring {
				p.last = append(p.last[:0], p.last[1:]...)
			}
			p.last = append(p.last, candidate{*q, slices.Clone(features)})
			return nil
		},
	})
}

// pick is the candidate that the prediction is of: the predictions of a message are
// the last ones that its input makes. Of a message that ends in the middle of an input
// message's predictions it is the last one with the same scores.
func (p *pass) pick(l *readout.Linear) *candidate {
	n := len(p.last)
	if n == 0 {
		return nil
	}
	if p.found.record.Rests.Seq == 0 {
		return &p.last[max(0, n-p.found.same)]
	}
	scores := make([]float32, l.Columns())
	for i := range slices.Backward(p.last) {
		if l.AnswerScores(scores, p.last[i].features); sameBits(scores, p.found.scores(scores, l)) {
			return &p.last[i]
		}
	}
	return &p.last[n-1]
}

// scores are those of the prediction. A message without scores has the class's alone:
// then, if that is the one in computed, these are computed.
func (f *Found) scores(computed []float32, l *readout.Linear) []float32 {
	p := &f.Prediction
	if len(p.Scores) > 0 {
		return p.Scores
	}
	if class := l.Class(computed); class == int(p.Class) && sameBits([]float32{l.Score(computed, class)}, []float32{p.Score}) {
		return computed
	}
	return nil
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// from says what the computing began with.
func (a *Again) from(f *Found, done replay.PastDone) {
	a.Messages, a.Snapshot, a.After, a.Begins = done.Messages, done.Snapshot, done.After, done.First
	a.otherInput = f.record.Created != "" && f.record.Created != wire.CreatedText(done.Created)
}

// reason is why the log cannot give what the output has.
func (a *Again) reason(done replay.PastDone) string {
	switch {
	case a.otherInput:
		return "the job's input was made again since: it has other messages than those that the prediction is of"
	case !done.Whole():
		why := fmt.Sprintf("the log begins with message %d, so that earlier samples of the stream are missing", done.First)
		if done.Unread != nil {
			why += fmt.Sprintf("; no snapshot could be used instead (%v)", done.Unread)
		}
		return why
	case done.Deleted > 0:
		return fmt.Sprintf("somebody removed %d messages from the middle of the log", done.Deleted)
	}
	return "the log has all messages, so these settings may differ from the stage's: input.non_finite, input.reorder, stage.max_streams; give the stage's configuration with -c"
}

// compare holds what was computed now against the output.
func (a *Again) compare(f *Found, c *candidate, l *readout.Linear, done replay.PastDone) {
	a.Found, a.Scores = true, make([]float32, l.Columns())
	l.AnswerScores(a.Scores, c.features)
	a.Class = l.Classes[l.Class(a.Scores)]
	if a.Same = sameBits(a.Scores, f.scores(a.Scores, l)); !a.Same {
		a.Why = a.reason(done)
		a.Broken = done.Whole() && !a.otherInput && done.Deleted == 0
		if first := c.q.Kept.Parts; len(first) > 0 && first[0].Message <= a.replaced {
			a.Why = fmt.Sprintf("the job got the network and the states of another job after input message %d (job replace), and the sequence began before that, with message %d: the other job may have begun to read later", a.replaced, first[0].Message)
			a.Broken = false
		}
	}
	if c.q.Flags != f.Prediction.Flags&^(outcome.FlagDecided|outcome.FlagAbstain) { // which follow from the scores
		a.Flags = c.q.Flags.String()
		a.OtherFlags = true
	}
	if done.All { // each partition has its own place of a promotion
		return
	}
	if c.q.Readout != f.Prediction.Readout && !(c.q.Readout == "" && (f.Prediction.Readout == f.Meta.First)) {
		a.OtherReadout = true
	}
}

// when is a time as a prediction has it; nil where it has none.
func when(ns int64) *time.Time {
	if ns == codec.NoTime {
		return nil
	}
	t := time.Unix(0, ns).UTC()
	return &t
}

// ErrNoModel is that of a job whose model is not known.
var ErrNoModel = errors.New("give the stage's model file")
