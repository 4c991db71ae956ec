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

// isConfirmed records a request's result, and reports whether the NATS stream is gone:
// a cluster that elects leaders may briefly not find the stream.
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

// LostError reports the loss of a job's stored data, an ErrRecordLost.
type LostError struct {
	What  string // in a sentence
	Input string // the job whose input is left
}

func (e *LostError) Error() string {
	return "pipeline: " + e.What + ": " + ErrRecordLost.Error() + ": " + LostTrack(e.Input)
}

func (e *LostError) Unwrap() error { return ErrRecordLost }

// lostOutput reports the loss of a job's output; state describes the loss, trace the
// evidence of the output.
func lostOutput(job, inputJob, state, trace string) error {
	return &LostError{fmt.Sprintf("NATS stream %s %s, but job %q has begun (%s): the position of each partition is lost. The stage does not begin the job a second time, because that would repeat predictions and continue sequences without their beginning",
		wire.OutputStream(job), state, job, trace), inputJob}
}

// The states of a lost output, as a running worker sees them.
const (
	outputGone  = "is gone"
	outputEmpty = "holds nothing of the job"
	outputSeen  = "this worker has read its entry"
)

// EmptyOutput reports the loss of the messages of a job's output after a worker has
// read the job's entry.
func EmptyOutput(job, inputJob string) error {
	return lostOutput(job, inputJob, outputEmpty, outputSeen)
}

// GoneOutput reports the same loss if the NATS stream is missing.
func GoneOutput(job, inputJob string) error {
	return lostOutput(job, inputJob, outputGone, outputSeen)
}

// LostTrack is the remedy for a missing or new NATS stream, in the job whose input is
// read.
func LostTrack(inputJob string) string {
	return "search the server's log for \"Missing stream checksum file\": if it is there, no data is lost: stop the server, repair its store, and start both; if not, restore the NATS stream from a backup; without a backup, a new job can read the input that is left, of job " + inputJob
}

// ToldEvery is the interval of warnings of a partition that waits for the server.
const ToldEvery = 10 * time.Second
