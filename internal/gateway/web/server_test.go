package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// length decodes a payload as one sample, its length, unless the payload begins with "?".
type length struct{}

func (length) Decode(p []byte) ([]gateway.Part, error) {
	if p[0] == '?' {
		return nil, errors.New("it asks")
	}
	return []gateway.Part{{X: []float32{float32(len(p))}}}, nil
}

// An idempotency key belongs to its topic, because devices that count their messages send the
// same keys. Answers without a login contain nothing about topics.
func TestKeysAreOfATopic(t *testing.T) {
	t.Parallel()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	in, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.0.{{wildcard(1)}}"}})
	if err != nil {
		t.Fatal(err)
	}
	book := &pipelinetest.LogBook{}
	g, err := gateway.New(nc, gateway.Config{Channels: []string{"x"}, Decoder: length{}, Lines: length{}, Dir: t.TempDir(), Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	topics, err := gateway.ParseTopics("plant/+")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Listen(g, Options{Addr: "127.0.0.1:0", Access: gateway.Access{User: "u", Password: "p"}, Topics: topics, MaxMessage: 1 << 10, Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		topic, password, body string
		code                  int
		stored                uint64
	}{
		{"plant/a", "p", "1", 204, 1},
		{"plant/b", "p", "22", 204, 2}, // another device's message with the same number
		{"plant/a", "p", "1", 204, 2},  // a repetition
		{"plant/b", "p", "22", 204, 2},
		{"plant/a", "p", "333", 400, 2}, // another content
		{"plant/c", "p", "?", 422, 3},   // stored unchanged, with the reason
		{"plant/c", "p", "?", 422, 3},
		{"other/a", "p", "1", 404, 3},
		{"other/a", "", "1", 401, 3},
		{"plant/a", "", "1", 401, 3},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.Addr().String()+"/v1/"+c.topic, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("u", c.password)
		req.Header.Set("Idempotency-Key", "1")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		says, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || c.code == 422 && !strings.Contains(string(says), "it asks") {
			t.Errorf("%s, %q: %q (%v)", c.topic, c.body, says, err)
		}
		info, err := in.Info(t.Context())
		if err != nil || res.StatusCode != c.code || info.State.Msgs != c.stored {
			t.Errorf("%s, %q: %d, and %d messages are stored (%v); want %d, %d", c.topic, c.body, res.StatusCode, info.State.Msgs, err, c.code, c.stored)
		}
	}
}
