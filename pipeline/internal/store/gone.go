package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// missing is how long a NATS stream has not been found without a break.
type missing struct{ since time.Time }

// confirmed notes a question's outcome, and reports whether the NATS stream is
// gone: a cluster that is choosing leaders may not find it for a moment.
func (m *missing) confirmed(err error) bool {
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		m.since = time.Time{}
		return false
	}
	if m.since.IsZero() {
		m.since = time.Now()
	}
	return time.Since(m.since) > StaleGrace
}

// LostInput words the loss of the NATS stream of a job's input.
func LostInput(name string) error {
	return fmt.Errorf("pipeline: NATS stream %s is gone: %s", name, LostTrack)
}

// LostOutput words the loss of that of a job's output.
func LostOutput(name string) error {
	return fmt.Errorf("pipeline: NATS stream %s is gone. It held the position of each partition. Do not restart before it is restored: partitions with snapshots would refuse to start, and the others would predict all that the input still holds a second time: %s", name, LostTrack)
}

// LostTrack is what to do about a NATS stream that is not there, or is new.
const LostTrack = "search the server's log for \"Missing stream checksum file\": if it is there, no data is lost: stop the server, run eusn-stream doctor --repair STORE_DIR, and start both; if not, restore the NATS stream from a backup; without a backup, a new job can predict the input that is left"

// ToldEvery is how often a partition that waits for the server says so.
const ToldEvery = 10 * time.Second
