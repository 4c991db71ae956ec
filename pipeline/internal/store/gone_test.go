package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// One answer that a NATS stream is not there is no loss, and any other ends the
// doubt.
func TestMissingLooksTwice(t *testing.T) {
	var m missing
	gone := jetstream.ErrStreamNotFound
	if m.confirmed(gone) || m.confirmed(context.DeadlineExceeded) || !m.since.IsZero() {
		t.Error("one answer confirmed a loss, or another did not end the doubt")
	}
}
