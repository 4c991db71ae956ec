package pipeline_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The input's consumers have random names: each changes with a restart, and none
// contains the job's name.
func TestNamesOfConsumersAreRandom(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("guess", 1)
	seen := map[string]bool{}
	for range 2 {
		r := b.startStage(m, c)
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", uint64(len(seen)+1), 2, 1, true)})
		b.settleMessages(r, 1)
		n := 0
		b.onStream(wire.InputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error {
			all := s.ConsumerNames(ctx)
			for name := range all.Name() {
				if seen[name] {
					continue // of the previous worker, until the server deletes it
				}
				n++
				seen[name] = true
				if prefix, _, _ := strings.Cut(name, "_"); len(prefix) < 26 || strings.Contains(name, c.Job) {
					t.Errorf("consumer %q", name)
				}
			}
			return all.Err()
		})
		if n != 1 {
			t.Errorf("%d new names, want one", n)
		}
		r.stopStage(t)
	}
}
