package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// printer prints a stage's predictions as lines of JSON.
type printer struct {
	w       io.Writer
	job     string
	nc      *nats.Conn
	js      jetstream.JetStream
	from    uint64 // first message of the output to print
	skipped foreigners
}

// newPrinter records the end of the output before the stage starts, so that every new
// prediction and no old prediction is printed. The caller closes nc.
func newPrinter(ctx context.Context, w io.Writer, job string, b *server.Broker, log *slog.Logger) (*printer, error) {
	nc, js, err := b.Open(ctx, "eusn-stream/"+job+"/print")
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
		return nil // the stage will create it
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

// origin is the end of a line of JSON: the origin of a prediction.
type origin struct {
	// Readout is the fingerprint of the predicting readout, if the partition had a
	// promotion before; absent: the job's first readout.
	Readout string `json:"readout,omitempty"`
	// Traceparent is the place of the prediction's message in a trace; absent if the
	// message was not traced (docs/traces.md).
	Traceparent string `json:"traceparent,omitempty"`
}

// jsonLine encodes a prediction as a line of JSON, with the fields of more, an object,
// at its end.
func jsonLine(p *codec.Prediction, labels []string, traceparent string, more any) ([]byte, error) {
	line, err := outcome.Join(p.Place(), outcome.Named{Answer: &p.Answer, Labels: labels}, origin{p.Readout, traceparent}, more)
	return append(line, '\n'), err
}

// printOutput prints until ctx ends. A message of the output that is no prediction is reported
// and skipped: the stage decides about the partition.
func (p *printer) printOutput(ctx context.Context) error {
	return consumer.Read(ctx, p.js, p.job, consumer.Span{From: p.from, Skip: p.skipped.skip}, func(o consumer.Output) error {
		for i := range o.Predictions {
			line, err := jsonLine(&o.Predictions[i], o.Meta.Labels, o.Trace.Parent(), struct{}{})
			if err == nil {
				_, err = p.w.Write(line)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// foreigners are skipped messages.
type foreigners struct {
	log   *slog.Logger
	count int       // since the last report
	told  time.Time // time of the last report
}

// foreignEvery is the interval of reports of skipped messages.
const foreignEvery = 10 * time.Second

// skip reports a skipped message: the first, and then a count.
func (f *foreigners) skip(err *consumer.ForeignError) {
	f.count++
	if now := time.Now(); now.Sub(f.told) >= foreignEvery {
		f.log.Warn("message skipped: not a prediction of this job", "messages", f.count, "err", err)
		f.told, f.count = now, 0
	}
}
