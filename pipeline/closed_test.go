package pipeline_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The client closes a connection permanently when the server refuses a message, here a
// message above a max_payload that was lowered under the stage. The stage ends, with
// the reason, and continues from its position once the server accepts such messages.
func TestMaxPayloadLowered(t *testing.T) {
	t.Parallel()
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: 1 << 20}
	ns := pipelinetest.Serve(t, o)
	limit := func(bytes int32) {
		changed := *o
		changed.MaxPayload = bytes
		if err := ns.ReloadOptions(&changed); err != nil {
			t.Fatal(err)
		}
	}
	b := &rig{t: t, url: "nats://" + ns.Addr().String(), log: testLog(t)}
	b.readStreams()
	streams := pipelinetest.Recordings(30, 24)
	packets, sent := pipelinetest.Mixed(streams, 3)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	c := quickConfig("low", 1)
	c.SnapshotMessages = len(packets) / 2 // of thirty rows: more than the server will take
	r := b.startStage(m, c)
	half := len(packets) / 2
	b.publishPackets(packets[:half-1])
	b.settleMessages(r, half-1)
	limit(4096)
	b.publishPackets(packets[half-1 : half+1])
	mentions(t, r.waitForEnd(t), "4096", "needs 1048576: raise the server's max_payload")

	limit(1 << 20)
	b.nc.Close()
	b.readStreams() // with the new limits
	b.expireMembers("low")
	r = b.startStage(m, c)
	b.publishPackets(packets[half+1:])
	exp := direct(t, m, streams, sent)
	same(t, b.awaitPredictions("low", count(exp)), exp)
	r.stopStage(t)
}

// A stage whose connections are closed permanently restarts automatically.
func TestClosedConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	streams := pipelinetest.Recordings(6, 24)
	packets, sent := pipelinetest.Mixed(streams, 3)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	c := quickConfig("shut", 2)
	r := b.startStage(m, c)
	half := len(packets) / 2
	b.publishPackets(packets[:half])
	b.settleMessages(r, half)
	r.conns[0].Close()
	b.publishPackets(packets[half:])
	exp := direct(t, m, streams, sent)
	same(t, b.awaitPredictions("shut", count(exp)), exp)
	r.stopStage(t)
	if book.Lines("eusn-stream/shut/commit") == 0 || book.Lines("starting again on new connections") != 1 {
		t.Errorf("the log does not say why, once:\n%s", book)
	}
}

// readStreams connects the test.
func (b *rig) readStreams() {
	b.t.Helper()
	var err error
	if b.nc, err = b.dialServer(b.t.Context(), "test"); err != nil {
		b.t.Fatal(err)
	}
	b.js = pipelinetest.JetStream(b.t, b.nc)
}

// The reason for a failed reconnect is logged, and, once per lease, the failure to
// renew a lease.
func TestReconnectSaysWhy(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	book := &pipelinetest.LogBook{}
	r := rigOf(t, srv)
	r.url, r.log = srv.URL(), book.Logger()
	stage := r.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), quickConfig("why", 1))
	began := time.Now()
	srv.Close()
	waitFor(t, "the reason in the log", func() bool {
		return book.Lines("connection refused") > 0 && book.Lines("no connection to the server now") > 0
	})
	if n, most := book.Lines("lease not renewed"), 1+int(time.Since(began)/(10*time.Second)); n < 1 || n > most {
		t.Errorf("%d lines on the lease, want 1 in ten seconds, at most %d:\n%s", n, most, book)
	}
	stage.cancel()
	_ = stage.waitForEnd(t)
}
