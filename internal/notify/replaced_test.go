package notify

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// TestReplacedBetweenChecks replaces the consumer after its check, and before the next request:
// the events that the new consumer leaves out are sent too.
func TestReplacedBetweenChecks(t *testing.T) {
	t.Parallel()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}})
	if err == nil {
		err = watch.EnsureStreams(t.Context(), js, "job", 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	publish := func(n uint64) {
		t.Helper()
		e := alarm.Event{Number: n, ID: fmt.Sprint("log-", n), Alarm: n, Kind: alarm.Raised, Rule: "rub", Key: "s", Time: time.Now()}
		data, err := e.Marshal()
		if err == nil {
			_, err = js.Publish(t.Context(), wire.AlarmSubject("job", "rub", "s"), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	var got []uint64
	replaced := false
	q := &queue{job: "job", name: "webhook", log: pipelinetest.Log(t)}
	q.sendEvent = func(_ context.Context, e *alarm.Event, _ []byte) error {
		if got = append(got, e.Number); e.Number == 4 {
			cancel()
		}
		return nil
	}
	q.checkReceiver = func(context.Context) error {
		if len(got) != 1 || replaced {
			return nil
		}
		replaced = true
		if err := js.DeleteConsumer(t.Context(), wire.AlarmStream("job"), "webhook"); err != nil {
			t.Error(err)
		}
		publish(2)
		if _, err := js.CreateConsumer(t.Context(), wire.AlarmStream("job"), watch.OutputConsumer("job", "webhook")); err != nil {
			t.Error(err)
		}
		publish(3)
		publish(4)
		return nil
	}
	if err := q.prepare(ctx, nc); err != nil {
		t.Fatal(err)
	}
	publish(1)
	if err := q.runUntilDone(ctx, nc); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("events %v were sent, want %v", got, want)
	}
}
