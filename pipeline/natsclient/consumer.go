package natsclient

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StopConsumer ends a consumer and waits for its callback, for so long. While
// the server is away the client may take its consumer's lock for many seconds
// (nats.go 1.55.0 asks for a new consumer under it), and Stop with it; the
// connection's end, which follows, ends them too.
func StopConsumer(cc jetstream.ConsumeContext, patience time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cc.Stop()
		<-cc.Closed()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}
