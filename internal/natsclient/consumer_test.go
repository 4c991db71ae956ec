package natsclient_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// storedConsumer returns an ordered consumer of n messages.
func storedConsumer(t *testing.T, srv *natsserver.Server, n int) jetstream.Consumer {
	t.Helper()
	js := pipelinetest.JetStreamAt(t, srv.URL(), nats.ReconnectWait(100*time.Millisecond))
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := js.PublishAsync("s", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	cons, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return cons
}

// EachStored passes each stored message once, and ends with the last one.
func TestEachStored(t *testing.T) {
	t.Parallel()
	cons := storedConsumer(t, pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}), 700) // more than the client requests at once
	read := 0
	if err := natsclient.EachStored(t.Context(), cons, time.Minute, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (bool, error) {
		if string(m.Data()) != fmt.Sprint(read) {
			t.Errorf("message %d is %s", read, m.Data())
		}
		read++
		return true, nil
	}); err != nil || read != 700 {
		t.Errorf("%d messages, %v", read, err)
	}
}

// A reader ends with its context while the client looks for a lost consumer. nats.go's own
// iterator does not: its Next asks for another ordered consumer without end.
func TestEachStoredOfLostStream(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	cons := storedConsumer(t, srv, 700)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := 0
	ended := make(chan error, 1)
	go func() {
		ended <- natsclient.EachStored(ctx, cons, time.Minute, func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error) {
			if read++; read == 1 {
				port := pipelinetest.Port(t, srv)
				srv.Close()
				pipelinetest.Server(t, natsserver.Options{Port: port}) // without the NATS stream
				time.AfterFunc(1500*time.Millisecond, cancel)
			}
			return true, nil
		})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || read == 700 {
			t.Errorf("after %d messages: %v", read, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the reader did not end with its context")
	}
}
