package notify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestConsumerIsRepaired: a consumer that is paused, deleted, changed or replaced, while its output
// runs or is stopped, loses no event, and the log reports the repair.
func TestConsumerIsRepaired(t *testing.T) {
	r := newRig(t)
	book := &pipelinetest.LogBook{}
	var mu sync.Mutex
	taken := map[uint64]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		e, err := alarm.Unmarshal(body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		taken[e.Number] = true
	}))
	defer receiver.Close()
	hook := &notify.Webhook{Job: "job", URL: receiver.URL, First: time.Millisecond, Log: book.Logger()}
	stream := wire.AlarmStream("job")
	remove := func(ctx context.Context) error { return r.js.DeleteConsumer(ctx, stream, "webhook") }
	change := func(c jetstream.ConsumerConfig) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			c.Durable, c.AckPolicy, c.AckWait, c.MaxAckPending, c.MaxDeliver = "webhook", jetstream.AckExplicitPolicy, 30*time.Second, 1, -1
			_, err := r.js.CreateOrUpdateConsumer(ctx, stream, c)
			return err
		}
	}
	replace := func(ctx context.Context) error { // by a consumer with the same configuration that starts with new messages
		if err := remove(ctx); err != nil {
			return err
		}
		r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"})
		return change(jetstream.ConsumerConfig{FilterSubject: wire.AlarmEvents("job"), DeliverPolicy: jetstream.DeliverNewPolicy})(ctx)
	}
	pause := func(ctx context.Context) error {
		_, err := r.js.PauseConsumer(ctx, stream, "webhook", time.Now().Add(1000*time.Hour))
		return err
	}
	filter := func(ctx context.Context) error {
		cons, err := r.js.Consumer(ctx, stream, "webhook")
		if err != nil {
			return err
		}
		c := cons.CachedInfo().Config
		c.FilterSubject = "job.alarm.none.>"
		_, err = r.js.UpdateConsumer(ctx, stream, c)
		return err
	}
	push := func(ctx context.Context) error {
		if err := remove(ctx); err != nil {
			return err
		}
		_, err := r.js.CreateOrUpdatePushConsumer(ctx, stream, jetstream.ConsumerConfig{Durable: "webhook", DeliverSubject: "elsewhere", FilterSubject: wire.AlarmEvents("job"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second})
		return err
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		for n := uint64(1); n <= r.number; n++ {
			if !taken[n] {
				return false
			}
		}
		return true
	}
	p := r.startProcess(hook)
	r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"})
	r.waitFor("the first event", all)
	for _, c := range []struct {
		what    string
		harm    func(context.Context) error
		stopped bool // the output is stopped in the meantime
		log     string
	}{
		{"paused", pause, false, "was paused"},
		{"deleted", remove, false, "was deleted"},
		{"filter", filter, false, "its filter"},
		{"replaced", replace, false, "its creation time"},
		{"pushed", push, false, "how it delivers"},
		{"paused", pause, true, "was paused"},
		{"filter", filter, true, "its filter"},
	} {
		before := book.Lines(c.log)
		if c.stopped {
			r.killWhenIdle(p, "webhook")
		}
		if err := c.harm(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		r.publishEvent(alarm.Event{Kind: alarm.Raised, Rule: "rub", Key: "s"})
		if c.stopped {
			p = r.startProcess(hook)
		}
		r.waitFor(fmt.Sprintf("the events of a consumer that was %s, stopped %v", c.what, c.stopped), all)
		if book.Lines(c.log) == before {
			t.Errorf("%s: the log does not report it: %s", c.what, book.String()[max(0, len(book.String())-400):])
		}
		if strings.Count(book.String(), "level=ERROR") > 40 {
			t.Fatalf("the log is full of it:\n%s", book)
		}
	}
	r.stopProcess(p)
}
