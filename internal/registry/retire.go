package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// retiredEnd is behind the fingerprint in the name of the object that says that
// an entry is retired.
const retiredEnd = ".retired"

// retirement is Retirement as it is stored.
type retirement struct {
	Version int `json:"version"`
	Retirement
}

// Retire keeps an entry from being used again, but for replays. The entry that
// the job predicts with stays. Who retires an entry twice changes nothing.
func (r *Models) Retire(ctx context.Context, fingerprint string, by Retirement) error {
	l := Lineage{Who: by.Who, Note: by.Note}
	if err := l.check(); err != nil {
		return err
	}
	e, err := r.Look(ctx, fingerprint)
	if err != nil && !errors.Is(err, ErrDamaged) || e.Retired != nil {
		return err
	}
	active, err := r.Active(ctx)
	switch {
	case err == nil && active.Fingerprint == fingerprint:
		return fmt.Errorf("registry: entry %s is not retired: %w", fingerprint, ErrActive)
	case err != nil && !errors.Is(err, ErrNoEntry) && !errors.Is(err, ErrDamaged):
		return err
	}
	by.When = by.When.UTC()
	b, err := json.Marshal(retirement{aboutVersion, by})
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return r.store.Put(ctx, fingerprint+retiredEnd, string(b), nil)
}

// retired is nil where an entry is not. A mark that cannot be read counts.
func (r *Models) retired(ctx context.Context, fingerprint string) (*Retirement, error) {
	o, err := r.store.FindModel(ctx, fingerprint+retiredEnd)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil
	}
	var by retirement
	if err == nil {
		if err = decodeOne(o.About, &by); err == nil {
			l := Lineage{Who: by.Who, Note: by.Note}
			err = l.check()
		}
	} else if !errors.Is(err, jetstream.ErrBadObjectMeta) {
		return nil, err
	}
	if err != nil {
		return &Retirement{Who: "somebody", When: o.Stored, Note: "the mark cannot be read"}, nil
	}
	return &by.Retirement, nil
}

// Now is when things are said to happen: whole seconds of UTC.
func Now() time.Time { return time.Now().UTC().Truncate(time.Second) }
