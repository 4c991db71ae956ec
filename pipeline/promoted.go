package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/registry"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// readoutName is the name under which a readout of a model is promoted: digits of
// a SHA-256 of all that its predictions depend on, the network included.
func readoutName(m *reservoir.Model, l *readout.Linear) (string, error) {
	return readoutOf(m, l, formats.Input{})
}

// readouts are those that a worker knows, by the names under which they are
// promoted: its model's, and those that it has read from the job's registry.
type readouts struct {
	js  jetstream.JetStream
	job string

	mu    sync.Mutex
	known map[string]*readout.Linear
}

func readoutsOf(js jetstream.JetStream, job string, m *reservoir.Model) (*readouts, error) {
	r := &readouts{js: js, job: job, known: map[string]*readout.Linear{}}
	for _, l := range m.Readouts {
		name, err := readoutName(m, l)
		if err != nil {
			return nil, err
		}
		r.known[name] = l
	}
	return r, nil
}

// Readout finds one. Every goroutine may ask; while one reads the registry, the
// others wait.
func (r *readouts) Readout(ctx context.Context, name string) (*readout.Linear, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.known[name]; l != nil {
		return l, nil
	}
	models, err := registry.Open(ctx, r.js, r.job)
	if err != nil {
		return nil, err
	}
	_, l, _, err := models.Model(ctx, name)
	if err == nil {
		r.known[name] = l
	}
	return l, err
}

// follower looks for promotions of the job.
type follower struct {
	warned time.Time // that this worker cannot follow one
}

// newest is the job's newest promotion, with the number 0 where there is none that
// this worker can follow: such a one does not come into the input.
func (f *follower) newest(ctx context.Context, out jetstream.Stream, job string, has *readouts, log *slog.Logger) wire.Promotion {
	e, _, err := store.ReadEntry(ctx, out, job)
	if err != nil {
		log.Debug("the job's entry cannot be read; it is read again", "err", err)
		return wire.Promotion{}
	}
	p := e.Promotions.Last()
	if p.Readout == "" {
		return p
	}
	if _, err := has.Readout(ctx, p.Readout); err != nil {
		f.warn(p, err, log)
		return wire.Promotion{}
	}
	return p
}

func (f *follower) warn(p wire.Promotion, err error, log *slog.Logger) {
	if now := time.Now(); now.Sub(f.warned) >= store.ToldEvery {
		f.warned = now
		log.Warn("a readout was promoted, but this worker cannot use it: its partitions go on with the one before", "promotion", p.Number, "readout", p.Readout, "err", err)
	}
}
