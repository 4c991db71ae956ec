package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
)

// printer prints what a stage publishes as lines of JSON.
type printer struct {
	w       io.Writer
	job     string
	nc      *nats.Conn
	js      jetstream.JetStream
	from    uint64 // first message of the output to print
	skipped foreigners
}

// newPrinter notes where the output ends before the stage starts, so that
// nothing it publishes is missed and nothing old is printed. The caller closes
// nc.
func newPrinter(ctx context.Context, w io.Writer, job string, b *server.Broker, log *slog.Logger) (*printer, error) {
	nc, js, err := b.Open("eusn-stream/" + job + "/print")
	if err != nil {
		return nil, err
	}
	p := &printer{w: w, job: job, nc: nc, js: js, from: 1, skipped: foreigners{log: log}}
	if err := p.findEnd(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("output of job %s: %w", job, err)
	}
	return p, nil
}

func (p *printer) findEnd(ctx context.Context) error {
	name, err := p.js.StreamNameBySubject(ctx, p.job+".out.*")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the stage will make it
	}
	if err != nil {
		return err
	}
	s, err := p.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	p.from = s.CachedInfo().State.LastSeq + 1
	return nil
}

// PredictionLine is one prediction on standard output.
type PredictionLine struct {
	Stream string     `json:"stream"`
	Seq    uint64     `json:"seq"`
	Row    uint32     `json:"row"`
	Time   *time.Time `json:"time,omitempty"`
	Class  string     `json:"class"`
	Score  float32    `json:"score"`
	// Probability is the class's among the model's classes; absent where the
	// model makes none of its scores.
	Probability float32   `json:"probability,omitempty"`
	Scores      []float32 `json:"scores,omitempty"`
	// Set are the classes that the true one is among, at the model's coverage; none or
	// several where it abstains. Absent where the model makes no sets.
	Set []string `json:"set,omitzero"`
	// Novelty is how unlike the training part the sequence is, and NoveltyP its p-value;
	// absent where the model has no detector.
	Novelty  *float32 `json:"novelty,omitempty"`
	NoveltyP float32  `json:"novelty_p,omitempty"`
	// Inputs are what the samples of the sequence are like: level, spread and pace of each
	// channel, in deviations of the training's sequences. Absent where the model does not say.
	Inputs []float32 `json:"inputs,omitempty"`
	// Change is the probability that the class changes until the end of the sequence;
	// absent of a prediction at an end, and where the model does not know it.
	Change float32 `json:"change,omitzero"`
	// Value is the number that a regression predicts, and Low to High its interval; Class
	// is then the number's name. Absent where the model predicts classes.
	Value *float32 `json:"value,omitempty"`
	Low   *float32 `json:"low,omitempty"`
	High  *float32 `json:"high,omitempty"`
	// Integrity says in a word how far to trust it, outcome.Flag.Integrity;
	// Flags say all there is.
	Integrity string `json:"integrity"`
	Flags     string `json:"flags,omitempty"`
	// Readout is the fingerprint of the one that made the prediction, where the
	// partition had a promotion before; absent: the one that the job began with.
	Readout string `json:"readout,omitempty"`
	// Traceparent is where in a trace the message of the prediction stands; absent where
	// it was not traced (docs/traces.md).
	Traceparent string `json:"traceparent,omitempty"`
}

// run prints until ctx ends. A message of the output that is no prediction is
// reported and left out: the stage decides what it means for a partition.
func (p *printer) run(ctx context.Context) error {
	enc := json.NewEncoder(p.w)
	return consumer.Read(ctx, p.js, p.job, consumer.Span{From: p.from, Skip: p.skipped.skip}, func(o consumer.Output) error {
		for _, row := range o.Predictions {
			line := newPredictionLine(row, o.Meta.Labels)
			line.Traceparent = o.Trace.Parent()
			if err := enc.Encode(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// foreigners are messages that are not printed.
type foreigners struct {
	log   *slog.Logger
	count int       // since they were told
	told  time.Time // when they were
}

// foreignEvery is how often messages that are not printed are told.
const foreignEvery = 10 * time.Second

// skip says that a message is not printed: the first, and then how many at once.
func (f *foreigners) skip(err *consumer.ForeignError) {
	f.count++
	if now := time.Now(); now.Sub(f.told) >= foreignEvery {
		f.log.Warn("message skipped: not a prediction of this job", "messages", f.count, "err", err)
		f.told, f.count = now, 0
	}
}

// setNames are the classes of a prediction's set, nil where it has none.
func setNames(p codec.Prediction, labels []string) []string {
	if p.Set == nil {
		return nil
	}
	set := make([]string, len(p.Set))
	for i, class := range p.Set {
		set[i] = labels[class]
	}
	return set
}

// finiteOnes are the numbers that JSON has: what is beyond float32 is the largest of them, and
// no number is 0.
func finiteOnes(x []float32) []float32 {
	for i, v := range x {
		if v-v != 0 {
			x = slices.Clone(x)
			for k := i; k < len(x); k++ {
				if x[k] != x[k] {
					x[k] = 0
				}
				x[k] = min(max(x[k], -math.MaxFloat32), math.MaxFloat32)
			}
			break
		}
	}
	return x
}

func newPredictionLine(p codec.Prediction, labels []string) PredictionLine {
	line := PredictionLine{
		Stream: p.Stream, Seq: p.Seq, Row: p.Row, Class: labels[p.Class],
		Score: p.Score, Probability: p.Probability, Scores: p.Scores, Integrity: p.Flags.Integrity(), Flags: p.Flags.String(), Readout: p.Readout,
	}
	line.Set, line.Change, line.Inputs = setNames(p, labels), p.Change, finiteOnes(p.Inputs)
	if p.NoveltyP != 0 {
		line.Novelty, line.NoveltyP = &p.Novelty, p.NoveltyP
	}
	if n := &p.Number; n.Known {
		line.Value, line.Low, line.High = &n.Value, &n.Low, &n.High
	}
	if p.Time != codec.NoTime {
		t := time.Unix(0, p.Time).UTC()
		line.Time = &t
	}
	return line
}
