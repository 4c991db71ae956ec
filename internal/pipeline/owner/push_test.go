package owner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Heartbeats are compared with the received messages: the last message may be lost,
// with no message after it.
func TestHeartbeats(t *testing.T) {
	beat := func(last, stalled string) *nats.Msg {
		h := nats.Header{"Status": {"100"}, "Nats-Last-Consumer": {last}}
		if stalled != "" {
			h["Nats-Consumer-Stalled"] = []string{stalled}
		}
		return &nats.Msg{Header: h}
	}
	message := &nats.Msg{Data: []byte("x")}
	server := serverOf(t)
	for name, c := range map[string]struct {
		come []*nats.Msg
		want string
	}{
		"as it should be":         {[]*nats.Msg{beat("0", ""), message, message, beat("2", "")}, ""},
		"an empty message":        {[]*nats.Msg{{}, beat("1", "")}, ""},
		"the last is missing":     {[]*nats.Msg{message, beat("2", "")}, errBehind.Error()},
		"no number":               {[]*nats.Msg{beat("", "")}, errBehind.Error()},
		"not heard once":          {[]*nats.Msg{message, beat("1", "flow.1"), message, beat("2", "flow.1")}, ""},
		"not heard for ever":      {[]*nats.Msg{message, beat("1", "flow.1"), beat("1", "flow.1")}, errNoFlow.Error()},
		"another wait, not heard": {[]*nats.Msg{beat("0", "flow.1"), beat("0", "flow.2")}, ""},
		"the server gives up":     {[]*nats.Msg{{Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}}}, "Consumer Deleted"},
	} {
		said := ""
		p := &pushed{js: server, took: func(*nats.Msg) {}, failed: func(err error) { said = err.Error() }}
		for _, m := range c.come {
			p.acceptMessage(m)
		}
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}

func serverOf(t *testing.T) jetstream.JetStream {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Port: natsserver.InProcess, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	nc, err := s.Connect("test", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// More messages than flow control allows in transit arrive in order with a slow
// receiver; silence reveals a consumer that the server has lost.
func TestPushedConsumer(t *testing.T) {
	t.Parallel()
	js := serverOf(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	const messages = 100 // 6.4 MB; the first window is 2 MiB
	body := make([]byte, 64<<10)
	for range messages {
		if _, err := js.Publish(ctx, "s", body); err != nil {
			t.Fatal(err)
		}
	}
	came, failed, gate := make(chan uint64, messages), make(chan error, 2), make(chan struct{})
	p, err := startPush(ctx, js, "S", 3, func(m *nats.Msg) {
		<-gate
		time.Sleep(time.Millisecond)
		meta, err := m.Metadata()
		if err != nil {
			t.Error(err)
			return
		}
		came <- meta.Sequence.Stream
	}, func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	pipelinetest.Until(t, "messages that wait in this process", func() bool { return p.countBehind() >= 10 })
	close(gate)
	late := time.After(pipelinetest.Patience)
	for want := uint64(3); want <= messages; want++ {
		select {
		case got := <-came:
			if got != want {
				t.Fatalf("message %d, want %d", got, want)
			}
		case err := <-failed:
			t.Fatal(err)
		case <-late:
			t.Fatalf("message %d does not come", want)
		}
	}
	if err := js.DeleteConsumer(ctx, "S", p.name); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, errSilent) {
			t.Error(err)
		}
	case <-late:
		t.Error("nobody notices that the consumer is gone")
	}
	if n := p.countBehind(); n != 0 {
		t.Errorf("%d messages wait, and all have been taken", n)
	}
	p.stopPush()
	p.stopPush() // of a connection without messages left
	if _, err := startPush(ctx, js, "NONE", 1, nil, nil); err == nil {
		t.Error("a consumer of a stream that does not exist")
	}
}
