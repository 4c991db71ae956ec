package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A refused new stream does not discard lines of other streams in the same message. A
// message with an answer is refused as a whole, because the device resends the message.
func TestRefusedStreamAmongOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	g := r.startGateway(t.TempDir(), func(c *Config) { c.NewStreams = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	m := Message{Input: TCP, From: "192.0.2.1:1", Lines: true, Payload: []byte("a=1 1;new=2 2;a=3 3;other=4 4")}
	if err := g.Take(ctx, &m); err != nil {
		t.Error(err)
	}
	other := Message{Input: TCP, From: m.From, Lines: true, Payload: []byte("other=5 5")}
	if err := g.Take(ctx, &other); !errors.As(err, new(*Refused)) {
		t.Errorf("%v, want a refusal", err)
	}
	if err := g.sendMessage(ctx, Message{Input: HTTP, From: m.From, Lines: true, Payload: []byte("a=6 6;new=7 7")}); !errors.As(err, new(*Refused)) {
		t.Errorf("%v, want a refusal", err)
	}
	g.endGateway(t)
	if got := r.storedSamples(); len(got) != 1 || !slices.Equal(got["a"], []float32{1, 1, 3, 3}) {
		t.Errorf("%v, want the lines of a over TCP", got)
	}
	if s := g.Stats(); s.Refused["tcp"] != 2 || s.Refused["http"] != 1 {
		t.Errorf("%v refused, want 2 over TCP and 1 over HTTP", s.Refused)
	}
}
