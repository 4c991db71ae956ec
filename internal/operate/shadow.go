package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// MostShadows is how many shadows a job may have.
const MostShadows = wire.MostShadows

// Shadow is a readout that scores the same sequences as the active readout, without
// predicting.
type Shadow = wire.Shadow

// ShadowsOf returns the shadows of a job, in the order of their creation.
func ShadowsOf(ctx context.Context, js jetstream.JetStream, job string) ([]Shadow, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return nil, err
	}
	e, _, err := store.ReadEntry(ctx, j.Out, job)
	if err != nil {
		return nil, err
	}
	return wire.ParseShadows(e.Shadows)
}

// SetShadow makes a readout of the job's registry score in parallel to the active
// readout, from the time when the workers notice it. The predictions go to a NATS stream,
// created if missing. No state, commit or prediction of the job changes. SetShadow sets
// When.
func SetShadow(ctx context.Context, js jetstream.JetStream, job string, next Shadow) ([]Shadow, error) {
	next.When = registry.Now()
	return changeShadows(ctx, js, job, func(j *store.Job, e *wire.Entry, all wire.Shadows) (wire.Shadows, error) {
		if e.Readout == "" {
			return nil, ErrNotBegun
		}
		if isActive(e, next.Readout) {
			return nil, ErrActive
		}
		if err := checkScores(ctx, js, job, next.Readout, e); err != nil {
			return nil, err
		}
		if err := store.MakeShadows(ctx, js, job, j.Out); err != nil {
			return nil, fmt.Errorf("%w: it is one NATS stream more, of at most %d bytes, than a job without shadows has (docs/nats.md)", err, store.ShadowBytes)
		}
		switch {
		case all.Has(next.Readout):
			return nil, ErrShadow
		case len(all) >= MostShadows:
			return nil, ErrShadows
		}
		return append(all, next), nil
	})
}

// checkScores returns the reason why a readout cannot score the states of a job.
func checkScores(ctx context.Context, js jetstream.JetStream, job, fingerprint string, e *wire.Entry) error {
	models, err := registry.Open(ctx, js, job)
	if err != nil {
		return err
	}
	_, l, entry, err := models.Model(ctx, fingerprint)
	if err == nil {
		err = entry.Usable()
	}
	if err != nil {
		return err
	}
	began, err := models.Find(ctx, e.Readout, e.Input)
	if err != nil {
		return err
	}
	_, first, _, err := models.Model(ctx, began.Fingerprint)
	if err != nil {
		return err
	}
	return shard.CanFollow(first, l)
}

// EndShadow ends a shadow. Its predictions stay.
func EndShadow(ctx context.Context, js jetstream.JetStream, job, fingerprint string) ([]Shadow, error) {
	return changeShadows(ctx, js, job, func(_ *store.Job, _ *wire.Entry, all wire.Shadows) (wire.Shadows, error) {
		if !all.Has(fingerprint) {
			return nil, ErrNoShadow
		}
		return all.Without(fingerprint), nil
	})
}

// changeAttempts is how often a change of the job's entry is tried while others change
// the entry.
const changeAttempts = 5

// changeShadows writes the job's entry with other shadows.
func changeShadows(ctx context.Context, js jetstream.JetStream, job string, change func(*store.Job, *wire.Entry, wire.Shadows) (wire.Shadows, error)) ([]Shadow, error) {
	fail := func(err error) ([]Shadow, error) { return nil, fmt.Errorf("pipeline: job %q: %w", job, err) }
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return nil, err
	}
	for range changeAttempts {
		e, seq, err := store.ReadEntry(ctx, j.Out, job)
		if err != nil {
			return nil, err
		}
		all, err := wire.ParseShadows(e.Shadows)
		if err == nil && seq == 0 {
			err = ErrNotBegun
		}
		if err == nil {
			all, err = change(j, &e, all)
		}
		if err != nil {
			return fail(err)
		}
		e.Shadows = all.Text()
		_, err = store.WriteEntry(ctx, js, j.Out, &e, job, seq)
		switch {
		case err == nil:
			return all, nil
		case !store.OvertakenBy(err):
			return fail(err)
		}
		if store.Pause(ctx, 100*time.Millisecond) != nil {
			return nil, ctx.Err()
		}
	}
	return fail(ErrMeanwhile)
}

// isActive reports whether a job's sequences begin with a readout.
func isActive(e *wire.Entry, fingerprint string) bool {
	return isReadout(e, e.Promotions.Last().Readout, fingerprint)
}

// isReadout reports whether a promotion's name belongs to a readout.
func isReadout(e *wire.Entry, name, fingerprint string) bool {
	return name == fingerprint || name == "" && registry.Identity(fingerprint, e.Input) == e.Readout
}

// endShadowOf ends the shadow of a readout that becomes active. An invalid list stays
// unchanged.
func endShadowOf(e *wire.Entry, name string) {
	all, err := wire.ParseShadows(e.Shadows)
	if err != nil {
		return
	}
	for _, s := range all {
		if isReadout(e, name, s.Readout) {
			e.Shadows = all.Without(s.Readout).Text()
		}
	}
}
