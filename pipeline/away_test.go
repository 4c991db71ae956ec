package pipeline

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The commit point survives a server that goes away in the middle.
func TestServerAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	srv := pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: natsserver.RandomPort})
	port := pipelinetest.Port(t, srv)
	b := rigOf(t, srv)
	b.url = srv.URL()
	streams := pipelinetest.Recordings(8, 60)
	packets, sent := pipelinetest.Mixed(streams, 12)
	r := b.start(m, Config{Job: "away", Partitions: 2})
	b.publish(packets[:len(packets)/2])
	srv.Close() // whatever is in hand has no answer now
	b2 := rigOf(t, pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: port}))
	b2.publish(packets[len(packets)/2:])
	b2.settle(r, len(packets))
	r.stop(t)
	same(t, b2.predictions("away"), direct(t, m, streams, sent))
}

// A stop while the server is away ends in time, whatever is in hand and
// however many partitions there are, and is no alarm: nothing is lost.
func TestStopWithoutServer(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	b := rigOf(t, srv)
	book := &pipelinetest.LogBook{}
	b.url, b.log = srv.URL(), book.Logger()
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(64, 60), 12)
	c := Config{Job: "gone", Partitions: 32, StopTimeout: 500 * time.Millisecond}
	r := b.start(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.publish(packets)
	srv.Close()
	time.Sleep(1500 * time.Millisecond) // consumers now look for the server, some under their lock
	begin := time.Now()
	r.cancel()
	if err := r.wait(t); err != nil {
		t.Errorf("stopping without a server: %v", err)
	}
	// What is in hand, and the consumers; the rest is a busy machine. One partition
	// after the other would take LeaveDeadline for each.
	if took := time.Since(begin); took > c.StopTimeout+owner.LeaveDeadline*time.Duration(c.Partitions)*2/3 {
		t.Errorf("it took %v", took)
	}
	if book.Lines("partition stopped") > 0 || book.Lines("stopped before the server answered") != 1 {
		t.Errorf("what the stage said:\n%s", book.String())
	}
}
