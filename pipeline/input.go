package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ErrOtherModel reports a worker with another model than the job's.
var ErrOtherModel = errors.New("nothing was claimed")

// The input format decides which samples a job reads, and a replay must read the same
// samples. So the format is part of a job's identity: the first worker stores it with
// the model's identity (wire.Entry), and the digits for the readout in records and in
// workers' names include it.

// readoutOf returns the part of a job's identity for a readout and the input format.
func readoutOf(m *reservoir.Model, linear *readout.Linear, in formats.Input) (string, error) {
	print, err := registry.Fingerprint(m, linear)
	if err != nil {
		return "", fmt.Errorf("pipeline: %w", err)
	}
	return registry.Identity(print, inputText(in)), nil
}

// inputText encodes an input format for a job's entry: empty for Arrow.
func inputText(in formats.Input) string {
	if in.WithDefaults().Format == formats.Arrow {
		return ""
	}
	return in.Text()
}

// otherInput reports the difference between a job's input format and a worker's.
func otherInput(job, theirs string, own formats.Input) error {
	in, err := formats.Parse(theirs)
	if err != nil {
		return fmt.Errorf("pipeline: job %q reads its messages in a way that this program does not know: use the program that the job was started with: %w: %w", job, err, ErrOtherModel)
	}
	return fmt.Errorf("pipeline: job %q reads its messages in another way than this worker: in the job, %s: a job keeps what it began with, because a replay must see the same samples: start this worker with the job's settings (or with input.format: auto and no other setting of messages, which takes the job's), or under another job name: %w: %w",
		job, strings.Join(in.Differs(own), "; "), wire.ErrOtherInput, ErrOtherModel)
}

// inputOf returns a job's input format, from its entry; fallback for a job before its
// beginning. A job without an entry reads Arrow if the records show Arrow.
func inputOf(ctx context.Context, out jetstream.Stream, job string, m *reservoir.Model, linear *readout.Linear, fallback formats.Input) (formats.Input, error) {
	e, seq, err := store.ReadEntry(ctx, out, job)
	switch {
	case err != nil:
		return fallback, err
	case seq == 0:
		old, err := recordsOfArrow(ctx, out, job, m, linear)
		if old {
			fallback = formats.Input{Format: formats.Arrow}
		}
		return fallback, err
	case e.Readout == "": // of imported states: the first worker decides
		return fallback, nil
	}
	in, err := formats.Parse(e.Input)
	if err != nil {
		return fallback, otherInput(job, e.Input, fallback)
	}
	return in, nil
}

// recordsOfArrow reports whether a job without an entry has a record written by a
// worker for Arrow.
func recordsOfArrow(ctx context.Context, out jetstream.Stream, job string, m *reservoir.Model, linear *readout.Linear) (bool, error) {
	arrow, err := readoutOf(m, linear, formats.Input{})
	if err != nil {
		return false, err
	}
	info, err := out.Info(ctx, jetstream.WithSubjectFilter(job+".out.*"))
	if err != nil {
		return false, fmt.Errorf("pipeline: records not listed: %w", err)
	}
	for subject := range info.State.Subjects {
		raw, err := out.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("pipeline: record on %s: %w", subject, err)
		}
		rec, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
		if err == nil && rec.Readout == arrow {
			return true, nil
		}
	}
	return false, nil
}
