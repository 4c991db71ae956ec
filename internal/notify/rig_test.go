package notify_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// rig is a server with an alarm log that the test writes.
type rig struct {
	t      *testing.T
	server *natsserver.Server
	js     jetstream.JetStream
	log    *slog.Logger
	number uint64
	// connect returns an output's connection to the server.
	connect func() (*nats.Conn, error)
}

func newRig(t *testing.T) *rig { return newRigWith(t, natsserver.Options{}) }

func newRigWith(t *testing.T, o natsserver.Options) *rig {
	t.Helper()
	r := &rig{t: t, server: pipelinetest.Server(t, o), log: pipelinetest.Log(t)}
	r.connect = func() (*nats.Conn, error) { return r.server.Connect("out", nil) }
	_, r.js = pipelinetest.Connect(t, r.server)
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}})
	if err == nil {
		err = watch.EnsureStreams(t.Context(), r.js, "job", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// publishEvent publishes an event and returns its number. An event without an alarm number starts
// an alarm.
func (r *rig) publishEvent(e alarm.Event) uint64 {
	r.t.Helper()
	r.number++
	e.Number, e.ID = r.number, fmt.Sprintf("log-%d", r.number)
	if e.Alarm == 0 {
		e.Alarm = e.Number
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	data, err := e.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	subject := wire.AlarmRulesSubject("job")
	if e.Kind != alarm.RulesChanged {
		subject = wire.AlarmSubject("job", e.Rule, alarm.Token(e.Key))
	}
	if _, err := r.js.Publish(r.t.Context(), subject, data); err != nil {
		r.t.Fatal(err)
	}
	return e.Number
}

func (r *rig) waitFor(what string, ok func() bool) {
	r.t.Helper()
	pipelinetest.Until(r.t, what, ok)
}

// process is an output in a goroutine, with its own connection.
type process struct {
	nc   *nats.Conn
	stop context.CancelFunc
	done chan error
}

func (r *rig) startProcess(o notify.Output) *process {
	r.t.Helper()
	nc, err := r.connect()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := o.Prepare(r.t.Context(), nc); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	p := &process{nc, cancel, make(chan error, 1)}
	go func() { p.done <- o.Run(ctx, nc) }()
	r.t.Cleanup(p.kill)
	return p
}

// kill ends the process without an orderly disconnect.
func (p *process) kill() {
	p.nc.Close()
	p.stop()
}

// killWhenIdle kills a process when its consumer has no pending events, and waits until the server
// has noticed. The server would redeliver a pending event after half a minute.
func (r *rig) killWhenIdle(p *process, name string) {
	r.t.Helper()
	info := func(ok func(i *jetstream.ConsumerInfo) bool) {
		r.t.Helper()
		r.waitFor("end of "+name, func() bool {
			c, err := r.js.Consumer(r.t.Context(), wire.AlarmStream("job"), name)
			return err == nil && ok(c.CachedInfo())
		})
	}
	info(func(i *jetstream.ConsumerInfo) bool { return i.NumPending == 0 && i.NumAckPending == 0 })
	p.kill()
	info(func(i *jetstream.ConsumerInfo) bool { return i.NumWaiting == 0 })
}

// stopProcess stops the process orderly.
func (r *rig) stopProcess(p *process) {
	r.t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		r.t.Error(err)
	}
	p.nc.Close()
}
