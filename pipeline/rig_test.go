package pipeline_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// rig is a real server with a connection for the test.
type rig struct {
	t       testing.TB
	srv     *natsserver.Server
	nc      *nats.Conn
	inbox   string                                                     // of connections by url, if not the default
	url     string                                                     // if set, stages connect by TCP
	bar     func(name string) error                                    // if set, may keep a stage's connection from being made
	connect func(ctx context.Context, name string) (*nats.Conn, error) // if set, how stages connect
	now     func() time.Time                                           // if set, the clock of new stages
	keep    time.Duration                                              // how long their replaced snapshots are kept; 0 = not
	apart   time.Duration                                              // see Worker.apart
	tracer  trace.Tracer                                               // see bridge.Trace
	carry   float64                                                    // see Worker.Carry
	js      jetstream.JetStream
	log     *slog.Logger
}

func newRig(t testing.TB) *rig { return newRigAt(t, t.TempDir()) }

func newRigAt(t testing.TB, dir string) *rig {
	t.Helper()
	return rigOf(t, pipelinetest.Server(t, natsserver.Options{Dir: dir}))
}

func rigOf(t testing.TB, srv *natsserver.Server) *rig {
	t.Helper()
	t.Cleanup(srv.Close)
	nc, js := pipelinetest.Connect(t, srv)
	return &rig{t: t, srv: srv, nc: nc, js: js, log: testLog(t)}
}

// dialServer connects a stage: in process, or by the rig's address where the test
// wants the connection to outlive the server.
func (b *rig) dialServer(ctx context.Context, name string) (*nats.Conn, error) {
	if b.bar != nil {
		if err := b.bar(name); err != nil {
			return nil, err
		}
	}
	if b.connect != nil {
		return b.connect(ctx, name)
	}
	if b.url != "" {
		return natsclient.Connect(ctx, natsclient.Options{URL: b.url, Name: name, InboxPrefix: b.inbox, Log: b.log})
	}
	return b.srv.Connect(name, b.log)
}

// publishPackets stores packets and waits for each acknowledgement.
func (b *rig) publishPackets(packets []pipelinetest.Packet) {
	b.t.Helper()
	for _, p := range packets {
		b.publishOn("sensors.", p)
	}
}

func (b *rig) publishOn(prefix string, packets ...pipelinetest.Packet) {
	b.t.Helper()
	for _, p := range packets {
		msg := &nats.Msg{Subject: prefix + p.Key, Header: p.Headers(), Data: p.Payload(b.t)}
		if _, err := b.js.PublishMsg(context.Background(), msg); err != nil {
			b.t.Fatal(err)
		}
	}
}

// expireMembers ends the leases of a job's workers, as time would.
func (b *rig) expireMembers(job string) {
	b.t.Helper()
	b.onStream("KV_"+wire.MemberBucket(job), func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
}

// newLoggedRig is newRig, with its stages' log in a book.
func newLoggedRig(t testing.TB) (*rig, *pipelinetest.LogBook) {
	t.Helper()
	b, book := newRig(t), &pipelinetest.LogBook{}
	b.log = book.Logger()
	return b, book
}

// onStream does something to a NATS stream.
func (b *rig) onStream(stream string, do func(context.Context, jetstream.Stream) error) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), stream)
	if err == nil {
		err = do(context.Background(), s)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
