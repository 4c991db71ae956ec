package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ErrOtherModel is that of a worker whose model is not the one its job runs.
var ErrOtherModel = errors.New("nothing was claimed")

// readoutOf is the part of a job's identity that stands for a readout and for how
// messages are read.
func readoutOf(m *reservoir.Model, linear *readout.Linear, in formats.Input) (string, error) {
	print, err := registry.Fingerprint(m, linear)
	if err != nil {
		return "", fmt.Errorf("pipeline: %w", err)
	}
	return registry.Identity(print, inputText(in)), nil
}

// writeEntry publishes the entry in the place of message expect, 0 = of none. taken
// says that somebody else wrote meanwhile.
func writeEntry(ctx context.Context, js jetstream.JetStream, e *wire.Entry, job string, expect uint64, body []byte) (taken bool, err error) {
	m := &nats.Msg{Subject: wire.EntrySubject(job), Data: body, Header: e.Header()}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
	_, err = js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	return store.OvertakenBy(err), err
}
