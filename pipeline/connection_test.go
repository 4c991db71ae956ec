package pipeline

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// slowDialer connects once; further attempts wait for permission.
type slowDialer struct {
	conns   []net.Conn
	waiting chan struct{} // one for each waiting attempt
	through chan struct{} // closed: none waits any more
}

func (d *slowDialer) Dial(network, address string) (net.Conn, error) {
	if len(d.conns) > 0 {
		d.waiting <- struct{}{}
		<-d.through
	}
	conn, err := net.Dial(network, address)
	d.conns = append(d.conns, conn)
	return conn, err
}

// Status does not wait for a server that does not answer a dial: the client holds its
// lock meanwhile.
func TestStatusWhileDialing(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	d := &slowDialer{waiting: make(chan struct{}, 100), through: make(chan struct{})}
	r := &run{}
	r.conns.open = func(name string) (*nats.Conn, error) {
		return nats.Connect(srv.URL(), append(natsclient.LongLived(name, pipelinetest.Log(t)), nats.SetCustomDialer(d))...)
	}
	nc, err := r.conns.dialAnother("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var c Counters
	c.running.Store(r)
	if !c.Status().Connected {
		t.Error("not connected after a dial")
	}
	d.conns[0].Close()
	<-d.waiting
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for c.Status().Connected {
			time.Sleep(time.Millisecond)
		}
	}()
	select {
	case <-lost:
	case <-time.After(pipelinetest.Patience):
		t.Error("Status waits for the dial, or does not see the loss")
	}
	close(d.through)
	pipelinetest.Until(t, "the connection again", func() bool { return c.Status().Connected })
	nc.Close()
	pipelinetest.Until(t, "its end", func() bool { return !c.Status().Connected })
}
