package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// retiredEnd follows the fingerprint in the name of the object that marks an entry as
// retired.
const retiredEnd = ".retired"

// retirement is Retirement in stored form.
type retirement struct {
	Version int `json:"version"`
	Retirement
}

// Retire keeps an entry from further use, except for replays. The active entry stays.
// Retiring an entry twice changes nothing.
func (r *Models) Retire(ctx context.Context, fingerprint string, by Retirement) error {
	l := Lineage{Who: by.Who, Note: by.Note}
	if err := l.checkLineage(); err != nil {
		return err
	}
	e, err := r.CheckRetire(ctx, fingerprint)
	if err != nil || e.Retired != nil {
		return err
	}
	by.When = by.When.UTC()
	b, err := json.Marshal(retirement{aboutVersion, by})
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return r.store.Put(ctx, fingerprint+retiredEnd, string(b), nil)
}

// CheckRetire returns an entry, or the reason why Retire refuses the entry.
func (r *Models) CheckRetire(ctx context.Context, fingerprint string) (Entry, error) {
	e, err := r.FindEntry(ctx, fingerprint)
	if err != nil && !errors.Is(err, ErrDamaged) || e.Retired != nil {
		return e, err
	}
	active, err := r.Active(ctx)
	switch {
	case err == nil && active.Fingerprint == fingerprint:
		return e, fmt.Errorf("registry: entry %s is not retired: %w", fingerprint, ErrActive)
	case err != nil && !errors.Is(err, ErrNoEntry) && !errors.Is(err, ErrDamaged):
		return e, err
	}
	return e, nil
}

// readRetirement returns nil if an entry is not retired. An unreadable mark counts.
func (r *Models) readRetirement(ctx context.Context, fingerprint string) (*Retirement, error) {
	o, err := r.store.FindModel(ctx, fingerprint+retiredEnd)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, nil
	}
	var by retirement
	if err == nil {
		if err = decodeOne(o.About, &by); err == nil {
			l := Lineage{Who: by.Who, Note: by.Note}
			err = l.checkLineage()
		}
	} else if !errors.Is(err, jetstream.ErrBadObjectMeta) {
		return nil, err
	}
	if err != nil {
		return &Retirement{Who: "somebody", When: o.Stored, Note: "the mark cannot be read"}, nil
	}
	return &by.Retirement, nil
}

// Now returns the time of an event: whole seconds of UTC.
func Now() time.Time { return time.Now().UTC().Truncate(time.Second) }
