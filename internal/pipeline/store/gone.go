package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// missing is how long a NATS stream has not been found without a break.
type missing struct{ since time.Time }

// isConfirmed notes a question's outcome, and reports whether the NATS stream is
// gone: a cluster that is choosing leaders may not find it for a moment.
func (m *missing) isConfirmed(err error) bool {
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
func LostInput(job string) error {
	return fmt.Errorf("pipeline: NATS stream %s is gone: %s", wire.InputStream(job), LostTrack(job))
}

// LostError is the loss of what a job has stored, an ErrRecordLost.
type LostError struct {
	What string // in a sentence
	Do   string // about it
}

func (e *LostError) Error() string {
	return "pipeline: " + e.What + ": " + ErrRecordLost.Error() + ": " + e.Do
}

func (e *LostError) Unwrap() error { return ErrRecordLost }

// lostOutput words the loss of a job's output, which state describes. trace is what
// shows that there was one.
func lostOutput(job, inputJob, state, trace string) error {
	return &LostError{fmt.Sprintf("NATS stream %s %s, but job %q has begun (%s): the position of each partition is lost. The stage does not begin the job a second time, because that would repeat predictions and continue sequences without their beginning",
		wire.OutputStream(job), state, job, trace), LostTrack(inputJob)}
}

// The states of a lost output, and what a worker that runs has seen of it.
const (
	outputGone  = "is gone"
	outputEmpty = "holds nothing of the job"
	outputSeen  = "this worker has read its entry"
)

// EmptyOutput is the loss of the output of a job whose entry a worker has read.
func EmptyOutput(job, inputJob string) error {
	return lostOutput(job, inputJob, outputEmpty, outputSeen)
}

// GoneOutput is the same where there is no such NATS stream.
func GoneOutput(job, inputJob string) error {
	return lostOutput(job, inputJob, outputGone, outputSeen)
}

// LostTrack is what to do about a NATS stream that is not there, or is new, in the
// job whose input is to be read.
func LostTrack(inputJob string) string {
	return "search the server's log for \"Missing stream checksum file\": if it is there, no data is lost: stop the server, run eusn-stream doctor --repair STORE_DIR, and start both; if not, restore the NATS stream from a backup; without a backup, a new job can predict the input that is left: eusn-stream run --job NEW --input-job " + inputJob
}

// ToldEvery is how often a partition that waits for the server says so.
const ToldEvery = 10 * time.Second
