package pipeline

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// A server that takes nothing is a line a second in the publisher's log,
// whatever the number of streams and attempts.
func TestPublisherLogsRefusalsOnceASecond(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	full := jetstream.StreamConfig{Name: "FULL", Subjects: []string{"sensors.*"}, MaxBytes: 4 << 10, Discard: jetstream.DiscardNew}
	if _, err := b.js.CreateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	book := &pipelinetest.LogBook{}
	list, _ := series(200, 60, true)
	got, err := Publisher{Channels: []string{"x", "y"}, RowsPerMessage: 2, Log: book.Logger()}.Publish(ctx, b.nc, &items{list: list})
	if !errors.Is(err, context.DeadlineExceeded) || got.Retries < 100 {
		t.Fatalf("%+v, %v: too few refusals to see anything", got, err)
	}
	// One at the first refusal and one for each whole second; another if the
	// machine is slow to end it.
	if n := book.Lines("messages not taken"); n < 1 || n > 3 || book.Lines("refusals=") != n {
		t.Errorf("%d lines for %d refusals:\n%s", n, got.Retries, book)
	}
}

// Resuming what does not exist is an error, not a first run.
func TestResumeWithoutJob(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER-IN", Subjects: []string{"sensors.*"}}); err != nil {
		t.Fatal(err)
	}
	list, _ := series(2, 5, true)
	got, err := Publisher{Channels: []string{"x", "y"}, Resume: true, Job: "nosuch"}.Publish(t.Context(), b.nc, &items{list: list})
	mentions(t, err, "nothing to resume", "NOSUCH-IN")
	if got.Messages != 0 {
		t.Errorf("%d messages published all the same", got.Messages)
	}
}

// slowPort accepts connections to addr and lets them through after a while,
// as a machine does that has too much to do.
func slowPort(t *testing.T, addr string, wait time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				time.Sleep(wait)
				s, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer s.Close()
				wg.Go(func() { defer c.Close(); _, _ = pour(c, s) })
				_, _ = pour(s, c)
			})
		}
	})
	return l.Addr().String()
}

func pour(to, from net.Conn) (n int, err error) {
	buf := make([]byte, 4096)
	for {
		if n, err = from.Read(buf); err != nil {
			return n, err
		}
		if _, err = to.Write(buf[:n]); err != nil {
			return n, err
		}
	}
}

// A server that greets after three seconds is still reached.
func TestConnectWaits(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	nc, err := natsclient.Connect(natsclient.Options{URL: "nats://" + slowPort(t, strings.TrimPrefix(srv.URL(), "nats://"), 3*time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// A consumer that the server refuses is asked for again, and not for ever.
func TestConsumerRefused(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	book := &pipelinetest.LogBook{}
	r := &run{Stage: &Stage{Dial: b.dial}, cfg: Config{Job: "none"}, log: book.Logger(), readers: make([]jetstream.JetStream, 1), perConnection: 1}
	defer func() {
		for _, nc := range r.conns {
			nc.Close()
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tn := &tenure{run: r, part: newPartition(0, 0), shard: &shard{}, ctx: ctx, stop: stop}
	_, err := tn.read()
	mentions(t, err, "consumer of partition 0", "refused 10 times")
	if n := book.Lines("trying again"); n != consumerAttempts-1 {
		t.Errorf("%d attempts logged, want %d", n, consumerAttempts-1)
	}
}

// What is not answered in time while starting is asked again, a few times.
func TestStartAsksAgain(t *testing.T) {
	book := &pipelinetest.LogBook{}
	r := &run{log: book.Logger()}
	late, calls := context.DeadlineExceeded, 0
	err := r.patiently(t.Context(), func() error {
		if calls++; calls < 3 {
			return late
		}
		return nil
	})
	if err != nil || calls != 3 || book.Lines("asking again") != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	calls = 0
	if err := r.patiently(t.Context(), func() error { calls++; return late }); !errors.Is(err, late) || calls != natsclient.JetStreamAttempts {
		t.Errorf("never answered: %d calls, %v", calls, err)
	}
	calls = 0
	if err := r.patiently(t.Context(), func() error { calls++; return wire.ErrRecord }); err != wire.ErrRecord || calls != 1 {
		t.Errorf("another error: %d calls, %v", calls, err)
	}
}
