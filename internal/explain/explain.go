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
	// keptValues is the number of a sequence's values that are kept for holding a channel.
	keptValues = 1 << 22
	// mostAlike is the maximum number of predictions in a message that differ only in their order.
	mostAlike = 512
	// beyond is the number of additional predictions that the next message may have if a message
	// ends in the middle of an input message's predictions.
	beyond = 64
)

// Explainer explains predictions of a job.
type Explainer struct {
	JS jetstream.JetStream
	// Job has the configuration and the engines of the job's stage. Its Model may be nil: the job's
	// registry then provides the model.
	Job      pipeline.Job
	Features int // number of strongest features in the list
	// Stretches is the maximum number of parts of the samples that are held one at a time; fewer if
	// the computation would be too large.
	Stretches int
	Progress  func(replay.PastDone)
}

// Explain recomputes and explains a prediction. If this is not possible, Again.Why has the reason,
// and the other fields have the data of the output.
func (x *Explainer) Explain(ctx context.Context, f Found) (*Explanation, error) {
	m, err := x.findModel(ctx, &f)
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
	done, err := p.readLog(ctx, x, m)
	if err != nil {
		return nil, err
	}
	if e.Again.replacedAfter, err = networkReplacedAfter(ctx, x.JS, &f); err != nil {
		return nil, err
	}
	e.Again.setOrigin(&f, done)
	c := p.pickCandidate(m.linear)
	if c == nil {
		e.Again.Why = "the log gives no such prediction: " + e.Again.mismatchReason(done)
		if done.Snapshot != "" && !e.Again.otherInput {
			e.Again.Why = fmt.Sprintf("the log gives no such prediction: the log begins with message %d, and snapshot %s, after message %d, may be behind the sequence", done.First, done.Snapshot, done.After)
		}
		return e, nil
	}
	e.Samples = samplesOf(&c.q)
	e.Again.compareWith(&f, c, m.linear, done)
	if m.linear.Detects {
		e.HeldWhy = "the readout knows no faults, and answers by how unlike the training the sequence is: that is a distance, of which no member and no channel has a share"
		return e, nil
	}
	if m.linear.Segments != nil {
		e.Segments, e.HeldWhy = m.explainSegments(c), "the readout reads segments of the sequence, not the network"
		return e, nil
	}
	if m.linear.Interval != nil {
		e.HeldWhy = "the prediction is a number: only what makes a class can be taken apart"
		return e, nil
	}
	e.Score = m.explainScore(c, x.Features)
	e.Values = valuesOf(&c.q)
	e.Held, e.Stretches, e.HeldWhy, err = m.holdChannels(ctx, &c.q, e.Score, e.Again.Scores, x.Stretches)
	return e, err
}

// pass is a reading of the log.
type pass struct {
	found *Found
	to    uint64
	ring  int
	last  []candidate // latest predictions with the same place
}

// candidate is a sequence of the log.
type candidate struct {
	q        replay.Sequence
	features []float32
}

func (p *pass) readLog(ctx context.Context, x *Explainer, m *predictionModel) (replay.PastDone, error) {
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

// pickCandidate returns the candidate of the prediction: a message has the last predictions of its
// input. If a message ends in the middle of an input message's predictions, the candidate is the
// last with the same scores.
func (p *pass) pickCandidate(l *readout.Linear) *candidate {
	n := len(p.last)
	if n == 0 {
		return nil
	}
	if p.found.record.Rests.Seq == 0 {
		return &p.last[max(0, n-p.found.same)]
	}
	scores := make([]float32, l.Columns())
	for i := range slices.Backward(p.last) {
		if l.AnswerScores(scores, p.last[i].features, p.last[i].q.Statistics); sameBits(scores, p.found.scoresOr(scores, l)) {
			return &p.last[i]
		}
	}
	return &p.last[n-1]
}

// scoresOr returns the prediction's scores. A message without scores has only the class's score: if
// computed has the same score for the class, the result is computed.
func (f *Found) scoresOr(computed []float32, l *readout.Linear) []float32 {
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

// setOrigin records the start of the computation.
func (a *Recomputation) setOrigin(f *Found, done replay.PastDone) {
	a.Messages, a.Snapshot, a.After, a.Begins = done.Messages, done.Snapshot, done.After, done.First
	a.otherInput = f.record.Created != "" && f.record.Created != wire.CreatedText(done.Created)
}

// mismatchReason explains why the log cannot reproduce the output.
func (a *Recomputation) mismatchReason(done replay.PastDone) string {
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

// compareWith compares the recomputed prediction with the output.
func (a *Recomputation) compareWith(f *Found, c *candidate, l *readout.Linear, done replay.PastDone) {
	a.Found, a.Scores = true, make([]float32, l.Columns())
	l.AnswerScores(a.Scores, c.features, c.q.Statistics)
	a.Class = l.Classes[l.Class(a.Scores)]
	if a.Same = sameBits(a.Scores, f.scoresOr(a.Scores, l)); !a.Same {
		a.Why = a.mismatchReason(done)
		a.Broken = done.Whole() && !a.otherInput && done.Deleted == 0
		if first := c.q.Kept.Parts; len(first) > 0 && first[0].Message <= a.replacedAfter {
			a.Why = fmt.Sprintf("the job got the network and the states of another job after input message %d (job replace), and the sequence began before that, with message %d: the other job may have begun to read later", a.replacedAfter, first[0].Message)
			a.Broken = false
		}
	}
	if c.q.Flags != f.Prediction.Flags&^(outcome.FlagDecided|outcome.FlagAbstain) { // these flags follow from the scores
		a.Flags = c.q.Flags.String()
		a.OtherFlags = true
	}
	if done.All { // a promotion has a separate place in each partition
		return
	}
	if c.q.Readout != f.Prediction.Readout && !(c.q.Readout == "" && (f.Prediction.Readout == f.Meta.First)) {
		a.OtherReadout = true
	}
}

// predictionTime returns a prediction's time; nil if it has none.
func predictionTime(ns int64) *time.Time {
	if ns == codec.NoTime {
		return nil
	}
	t := time.Unix(0, ns).UTC()
	return &t
}

// ErrNoModel means that the job's model is unknown.
var ErrNoModel = errors.New("give the stage's model file")
