package store

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// OpenStates opens a job and its snapshots.
func OpenStates(ctx context.Context, js jetstream.JetStream, job string) (*Job, *Snapshots, error) {
	j, err := Open(ctx, js, job)
	if err != nil {
		return nil, nil, err
	}
	snaps, err := FindSnapshots(ctx, js, job)
	return j, snaps, err
}

// WithSnapshot runs f, which needs a partition's snapshot, and retries if f failed
// because a running stage has replaced the snapshot meanwhile.
func (j *Job) WithSnapshot(ctx context.Context, part int, f func() error) error {
	for attempt := 1; ; attempt++ {
		before, err := j.Record(ctx, part)
		if err != nil {
			return err
		}
		if err = f(); !errors.Is(err, ErrRow) && !LostSnapshot(err) || attempt == snapshotAttempts {
			return err
		}
		if now, again := j.Record(ctx, part); again != nil || now.Snap == before.Snap {
			return err
		}
	}
}

// snapshotAttempts is enough for a stage that replaces a snapshot every few seconds.
const snapshotAttempts = 5
