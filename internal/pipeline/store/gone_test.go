package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A single answer about a missing NATS stream is no loss, and any other answer ends the
// doubt.
func TestMissingLooksTwice(t *testing.T) {
	var m missing
	gone := jetstream.ErrStreamNotFound
	if m.isConfirmed(gone) || m.isConfirmed(context.DeadlineExceeded) || !m.since.IsZero() {
		t.Error("one answer confirmed a loss, or another did not end the doubt")
	}
}

// Only a partition with a record recomputes lost predictions; no error text promises it
// for a partition without a record.
func TestLostRecord(t *testing.T) {
	c := &Committer{Job: "eusn", Part: 3, Last: 17}
	left, gone := c.lostError(12), c.lostError(0)
	if want := "continues from message 12 and makes the lost predictions again"; errors.Is(left, ErrRecordLost) || !strings.Contains(left.Error(), want) {
		t.Errorf("%v, want %q", left, want)
	}
	if !errors.Is(gone, ErrRecordLost) || strings.Contains(gone.Error(), "again") || !strings.Contains(gone.Error(), "the input that is left, of job eusn") {
		t.Error(gone)
	}
	c.InputJob = "plant"
	if gone = c.lostError(0); !strings.Contains(gone.Error(), "of job plant") {
		t.Errorf("%v, want the job whose input is read", gone)
	}
}
