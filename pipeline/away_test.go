package pipeline_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Commits survive a server that becomes unavailable in the middle.
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
	r := b.startStage(m, pipeline.Config{Job: "away", Partitions: 2})
	b.publishPackets(packets[:len(packets)/2])
	srv.Close() // whatever is in hand has no answer now
	b2 := rigOf(t, pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: port}))
	b2.publishPackets(packets[len(packets)/2:])
	b2.settleMessages(r, len(packets))
	r.stopStage(t)
	same(t, b2.readPredictions("away"), direct(t, m, streams, sent))
}

// A stop while the server is away ends in time, whatever is in hand and
// however many partitions there are, and is no alarm: nothing is lost.
func TestStopWithoutServer(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	b := rigOf(t, srv)
	book := &pipelinetest.LogBook{}
	b.url, b.log = srv.URL(), book.Logger()
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(64, 60), 12)
	c := pipeline.Config{Job: "gone", Partitions: 32, StopTimeout: 500 * time.Millisecond}
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.publishPackets(packets)
	srv.Close()
	time.Sleep(1500 * time.Millisecond) // consumers now look for the server, some under their lock
	begin := time.Now()
	r.cancel()
	if err := r.waitForEnd(t); err != nil {
		t.Errorf("stopping without a server: %v", err)
	}
	// Time for pending work and the consumers; the rest allows for a busy machine.
	// Sequential stops would take LeaveDeadline per partition.
	if took := time.Since(begin); took > c.StopTimeout+owner.LeaveDeadline*time.Duration(c.Partitions)*2/3 {
		t.Errorf("it took %v", took)
	}
	if book.Lines("partition stopped") > 0 || book.Lines("stopped before the server answered") != 1 {
		t.Errorf("what the stage said:\n%s", book.String())
	}
}

// A leaf node with its own job is cut off for a day of log time, in which the stage is
// killed, too. The hub's mirror of its predictions then equals the predictions of an
// uninterrupted run, each once. docs/nats.md, "A site that is cut off at times".
func TestLeafCutOff(t *testing.T) {
	t.Parallel()
	const minute = int64(time.Minute)
	port := freePort(t)
	hubAt := serveConfigured(t, fmt.Sprintf("server_name: hub\nlisten: 127.0.0.1:-1\njetstream { domain: hub, store_dir: %q }\nleafnodes { listen: \"127.0.0.1:%d\", no_advertise: true }\n", t.TempDir(), port)) // the leaf has only this address of the hub
	way := pipelinetest.NewCable(t, port)
	leafAt := serveConfigured(t, fmt.Sprintf("server_name: leaf\nlisten: 127.0.0.1:-1\njetstream { domain: leaf, store_dir: %q }\nleafnodes { reconnect: \"100ms\", remotes: [ { url: \"nats://%s\" } ] }\n", t.TempDir(), way.Addr()))
	leaf, hub := &rig{t: t, log: testLog(t), url: "nats://" + leafAt}, &rig{t: t, log: testLog(t), url: "nats://" + hubAt}
	leaf.readStreams()
	hub.readStreams()

	rng := rand.New(rand.NewPCG(24, 60))
	var streams []pipelinetest.Recording
	sent := map[string][]pipelinetest.Packet{}
	var packets []pipelinetest.Packet
	for i := range 3 {
		const rows = 26 * 60
		r := pipelinetest.Recording{Name: fmt.Sprintf("s%d", i), X: pipelinetest.Noise(rng, 2*rows), Ends: make([]bool, rows)}
		for k := range int64(rows) {
			r.Times = append(r.Times, 1_700_000_000_000_000_000+k*minute)
		}
		streams, sent[r.Name] = append(streams, r), r.Split(rng)
		packets = append(packets, sent[r.Name]...)
	}
	slices.SortStableFunc(packets, func(a, b pipelinetest.Packet) int { return int((a.Batch.Times[0] - b.Batch.Times[0]) / minute) })
	hour := func(h int64) int {
		return slices.IndexFunc(packets, func(p pipelinetest.Packet) bool { return p.Batch.Times[0] >= streams[0].Times[0]+h*60*minute })
	}
	cut, middle, mended := hour(1), hour(12), hour(25)

	m, c := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 30, Hop: 15}), quickConfig("site", 2)
	r := leaf.startStage(m, c)
	mirror := jetstream.StreamConfig{Name: wire.OutputStream("site"), Mirror: &jetstream.StreamSource{Name: wire.OutputStream("site"), Domain: "leaf"}}
	waitFor(t, "the link", func() bool {
		_, err := hub.js.CreateStream(t.Context(), mirror)
		return err == nil
	})
	leaf.publishPackets(packets[:cut])
	leaf.settleMessages(r, cut)
	before := hub.awaitPredictions("site", count(leaf.readPredictions("site")))

	way.Set(true)
	waitFor(t, "the cut", func() bool {
		_, err := hub.nc.Request("$JS.leaf.API.INFO", nil, time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	})
	leaf.publishPackets(packets[cut:middle])
	leaf.settleMessages(r, middle)
	r.crashStage(t)
	leaf.expireMembers("site")
	r = leaf.startStage(m, c)
	leaf.publishPackets(packets[middle:mended])
	leaf.settleMessages(r, mended)
	if got := count(hub.readPredictions("site")); got != count(before) || got == 0 {
		t.Errorf("while it is cut off the hub has %d predictions, before %d: the test has lost its subject", got, count(before))
	}

	way.Set(false)
	leaf.publishPackets(packets[mended:])
	leaf.settleMessages(r, len(packets))
	r.stopStage(t)
	exp := direct(t, m, streams, sent)
	same(t, leaf.readPredictions("site"), exp)
	same(t, hub.awaitPredictions("site", count(exp)), exp)
}
