package store

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A second worker compares a new stream like an old stream.
func TestSecondComerCompares(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := layoutOf("late")
	c.Partitions = 3
	other := c
	other.Partitions = 4
	for i, want := range c.listStreams() {
		if _, err := js.CreateStream(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		s, err := createStream(t.Context(), js, other.listStreams()[i])
		if err != nil || s.CachedInfo().Config.Name != want.Name {
			t.Errorf("%s: %v", want.Name, err)
		}
	}
	pipelinetest.Mentions(t, EnsureStreams(t.Context(), js, other, pipelinetest.Log(t)), "partition(4,1)", "partition(3,1)", "resize the job")
}

// layoutOf returns a job's layout with a stage's default settings.
func layoutOf(job string) Layout {
	pattern, _ := wire.ParsePattern(wire.DefaultInputSubject)
	return Layout{Job: job, Input: pattern, Partitions: 64, MaxMessage: 1<<20 - 16<<10, Replicas: 1, DeadLetterKeep: 100_000}
}

// snapshotsOf returns the store of a job that has not run.
func snapshotsOf(ctx context.Context, js jetstream.JetStream, c Layout) (*Snapshots, error) {
	if err := EnsureStreams(ctx, js, c, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return OpenSnapshots(ctx, js, c.Job, c.Replicas)
}

// The server assigns each message to the partition that the pattern gives, also for the
// program that has written wire's partitions.json.
func TestServerHashesAsPatternsSay(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	text, err := os.ReadFile("../wire/testdata/partitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Pattern, Subject, Key string
		Partition             map[string]int
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	// STAYS keeps the account's directory: the server removes the directory of its last
	// NATS stream late, perhaps under the next stream.
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "STAYS", Subjects: []string{"stays"}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		p, err := wire.ParsePattern(c.Pattern)
		if err != nil {
			t.Fatal(err)
		}
		for n, part := range map[int]int{16: c.Partition["16"], 3: c.Partition["3"], 4096: c.Partition["4096"]} {
			job := fmt.Sprintf("hash%d-%d", i, n) // the server may find old messages in a NATS stream recreated immediately
			in, err := js.CreateStream(t.Context(), Layout{Job: job, Input: p, Partitions: n, Replicas: 1}.listStreams()[0])
			if err != nil {
				t.Fatalf("%s: %v", c.Pattern, err)
			}
			ack, err := js.Publish(t.Context(), c.Subject, nil)
			if err != nil {
				t.Fatal(err)
			}
			m, err := in.GetMsg(t.Context(), ack.Sequence)
			if err != nil || m.Subject != wire.InputSubject(job, part, c.Key) || wire.KeyOf(m.Subject) != c.Key {
				t.Errorf("%s of %s is stored on %v, want %s: %v", c.Subject, c.Pattern, m, wire.InputSubject(job, part, c.Key), err)
			}
			if m, err = in.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject(p.InputFilter(job, part))); err != nil || m.Sequence != ack.Sequence {
				t.Errorf("%s does not take it: %v, %v", p.InputFilter(job, part), m, err)
			}
			if got := PatternOf(in.CachedInfo().Config); got.Filter() != p.Filter() {
				t.Errorf("%s came back as %s", p.Filter(), got.Filter())
			}
			if err := js.DeleteStream(t.Context(), wire.InputStream(job)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
