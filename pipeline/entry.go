package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ErrOtherModel is that of a worker whose model is not the one its job runs.
var ErrOtherModel = errors.New("nothing was claimed")

// readoutOf identifies a readout, whatever others the model has, with what its
// predictions' flags depend on: the same scores with other ranges are other
// predictions. So are those of messages that are read in another way: programs
// from before there was one refuse such a job.
func readoutOf(m *reservoir.Model, head *readout.Linear, in formats.Input) (string, error) {
	alone := *m
	alone.Readouts = []*readout.Linear{head}
	alone.Training = reservoir.Training{MinLength: m.Training.MinLength, MaxLength: m.Training.MaxLength, Inputs: m.Training.Inputs, Rate: m.Training.Rate, LongestInterval: m.Training.LongestInterval}
	print, err := alone.Fingerprint()
	if err != nil {
		return "", fmt.Errorf("pipeline: %w", err)
	}
	if text := inputText(in); text != "" {
		print = fmt.Sprintf("%x", sha256.Sum256([]byte(print+" "+text)))
	}
	return print[:wire.HashDigits], nil
}

// writeEntry publishes the entry in the place of message expect, 0 = of none. taken
// says that somebody else wrote meanwhile.
func writeEntry(ctx context.Context, js jetstream.JetStream, e *wire.Entry, job string, expect uint64, body []byte) (taken bool, err error) {
	m := &nats.Msg{Subject: wire.EntrySubject(job), Data: body, Header: e.Header()}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
	_, err = js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	return store.OvertakenBy(err), err
}
