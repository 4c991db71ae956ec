package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// readoutName returns the name under which a readout of a model is promoted: digits of
// a SHA-256 of all dependencies of the predictions, including the network.
func readoutName(m *reservoir.Model, l *readout.Linear) (string, error) {
	return readoutOf(m, l, formats.Input{})
}

// readouts are the readouts known to a worker, by promotion name: its model's, and
// readouts read from the job's registry. An unknown readout is read in the background,
// and the caller asks later.
type readouts struct {
	js  jetstream.JetStream
	job string

	ctx  context.Context // ends the reading
	stop context.CancelFunc

	mu      sync.Mutex // guards the fields below; never held during a request to the server
	known   map[string]*readout.Linear
	failed  map[string]error // result of the last reading
	reading map[string]bool
	ends    sync.WaitGroup
}

// errReading reports a readout that is being read from the registry.
var errReading = errors.New("it is being read from the job's registry")

func readoutsOf(ctx context.Context, js jetstream.JetStream, job string, m *reservoir.Model) (*readouts, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &readouts{stop: stop, js: js, job: job, known: map[string]*readout.Linear{}, failed: map[string]error{}, reading: map[string]bool{}, ctx: ctx}
	for _, l := range m.Readouts {
		name, err := readoutName(m, l)
		if err != nil {
			stop()
			return nil, err
		}
		r.known[name] = l
	}
	return r, nil
}

// Readout returns a readout without waiting. Every goroutine may call it.
func (r *readouts) Readout(name string) (*readout.Linear, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.known[name]; l != nil {
		return l, nil
	}
	if r.ctx.Err() == nil && !r.reading[name] {
		r.reading[name] = true
		r.ends.Go(func() { r.readRegistry(name) })
	}
	if err := r.failed[name]; err != nil {
		return nil, err
	}
	return nil, errReading
}

// stopReading ends the reading; no caller remains.
func (r *readouts) stopReading() {
	r.stop()
	r.ends.Wait()
}

// readAgain is the pause before a failed readout is re-read.
const readAgain = 5 * time.Second

// readRegistry reads a readout from the registry.
func (r *readouts) readRegistry(name string) {
	l, err := r.fromRegistry(name)
	r.mu.Lock()
	r.failed[name] = err
	if err == nil {
		r.known[name] = l
	}
	r.mu.Unlock()
	if err != nil {
		store.Pause(r.ctx, readAgain)
	}
	r.mu.Lock()
	delete(r.reading, name)
	r.mu.Unlock()
}

func (r *readouts) fromRegistry(name string) (*readout.Linear, error) {
	models, err := registry.Open(r.ctx, r.js, r.job)
	if err != nil {
		return nil, err
	}
	_, l, _, err := models.Model(r.ctx, name)
	return l, err
}

// follower looks for promotions of the job.
type follower struct {
	warned   time.Time // time of the warning that this worker cannot follow a promotion
	shadowed shadowed
}

// newestPromotion returns the job's newest promotion, with the number 0 if there is none that
// this worker can follow: an unknown readout's promotion is not published into the
// input.
func (f *follower) newestPromotion(e *wire.Entry, has *readouts, log *slog.Logger) wire.Promotion {
	p := e.Promotions.Last()
	if p.Readout == "" {
		return p
	}
	if _, err := has.Readout(p.Readout); err != nil {
		if !errors.Is(err, errReading) {
			f.warnUnfollowed(p, err, log)
		}
		return wire.Promotion{}
	}
	return p
}

func (f *follower) warnUnfollowed(p wire.Promotion, err error, log *slog.Logger) {
	if now := time.Now(); now.Sub(f.warned) >= store.ToldEvery {
		f.warned = now
		log.Warn("a readout was promoted, but this worker cannot use it: its partitions keep the previous readout", "promotion", p.Number, "readout", p.Readout, "err", err)
	}
}
