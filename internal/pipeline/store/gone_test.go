package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A single answer about a missing NATS stream is no loss, and any other answer ends the
// doubt.
func TestMissingLooksTwice(t *testing.T) {
	var m missing
	gone := jetstream.ErrStreamNotFound
	if m.isConfirmed(gone) || m.isConfirmed(context.DeadlineExceeded) || !m.since.IsZero() {
		t.Error("one answer confirmed a loss, or another did not end the doubt")
	}
}

// Only a partition with a record recomputes lost predictions; no error text promises it
// for a partition without a record.
func TestLostRecord(t *testing.T) {
	c := &Committer{Job: "eusn", Part: 3, Last: 17}
	left, gone := c.lostError(12), c.lostError(0)
	if want := "continues from message 12 and makes the lost predictions again"; errors.Is(left, ErrRecordLost) || !strings.Contains(left.Error(), want) {
		t.Errorf("%v, want %q", left, want)
	}
	if !errors.Is(gone, ErrRecordLost) || strings.Contains(gone.Error(), "again") || !strings.Contains(gone.Error(), "the input that is left, of job eusn") {
		t.Error(gone)
	}
	c.InputJob = "plant"
	if gone = c.lostError(0); !strings.Contains(gone.Error(), "of job plant") {
		t.Errorf("%v, want the job whose input is read", gone)
	}
}

// begunMeanwhile is a server on which another worker begins a job before the first answer about
// its dead letters.
type begunMeanwhile struct {
	jetstream.JetStream
	begin func()
}

func (b *begunMeanwhile) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == wire.DeadLetterStream("young") && b.begin != nil {
		begin := b.begin
		b.begin = nil
		begin()
	}
	return b.JetStream.Stream(ctx, name)
}

// TestBeginnings lets two workers begin a job at the same time, and lets a worker begin a job
// that has begun and lost its output since the worker's first check.
func TestBeginnings(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	if err := EnsureStreams(t.Context(), js, layoutOf("young"), pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	out, err := js.Stream(t.Context(), wire.OutputStream("young"))
	if err != nil {
		t.Fatal(err)
	}
	own := wire.Entry{Identity: wire.Identity{Network: "n", Readout: "r"}, Worker: "w"}
	both := &begunMeanwhile{JetStream: js}
	both.begin = func() {
		if _, err := AgreeEntry(t.Context(), &own, js, out, "young"); err != nil {
			t.Error(err)
		}
		MarkBegun(t.Context(), js, nil, "young", true, pipelinetest.Log(t))
	}
	if err := CheckOutput(t.Context(), both, "young", "young"); err != nil || both.begin != nil {
		t.Errorf("a job that begins during the check: %v", err)
	}
	if err := out.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := AgreeEntry(t.Context(), &own, js, out, "young"); !errors.Is(err, ErrRecordLost) {
		t.Errorf("a job that has lost its output begins a second time: %v", err)
	}
}
