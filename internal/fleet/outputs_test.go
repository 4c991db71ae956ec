package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestOutputsThatDiffer: a report names a paused or changed consumer of an alarm output, and the
// change.
func TestOutputsThatDiffer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 2 })
	if err := watch.EnsureStreams(t.Context(), r.js, job, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.Publish(t.Context(), wire.AlarmRecordSubject(job), nil); err != nil { // the log exists
		t.Fatal(err)
	}
	stream := wire.AlarmStream(job)
	for _, c := range []struct {
		what   string
		change func(c *jetstream.ConsumerConfig)
		pause  bool
		says   string // part of the first finding about an output; empty = none
	}{
		{"as it must be", func(*jetstream.ConsumerConfig) {}, false, ""},
		{"made again behind an event", func(c *jetstream.ConsumerConfig) {
			c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, 1
		}, false, ""},
		{"paused", func(*jetstream.ConsumerConfig) {}, true, "the consumer webhook of the alarm log was paused"},
		{"another filter", func(c *jetstream.ConsumerConfig) { c.FilterSubject = job + ".alarm.none.>" }, false, "the consumer webhook of the alarm log was changed (its filter)"},
		{"no filter", func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" }, false, "(its filter)"},
		{"pushed", func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "elsewhere" }, false, "(how it delivers)"},
		{"no acknowledgements", func(c *jetstream.ConsumerConfig) {
			c.AckPolicy, c.AckWait, c.MaxAckPending = jetstream.AckNonePolicy, 0, 0
		}, false, "(how it delivers)"},
		{"from the beginning", func(c *jetstream.ConsumerConfig) { c.DeliverPolicy = jetstream.DeliverAllPolicy }, false, "(where it begins)"},
	} {
		cfg := watch.OutputConsumer(job, wire.OutputWebhook)
		c.change(&cfg)
		create := func() error {
			if cfg.DeliverSubject != "" {
				_, err := r.js.CreateOrUpdatePushConsumer(t.Context(), stream, cfg)
				return err
			}
			_, err := r.js.CreateConsumer(t.Context(), stream, cfg)
			return err
		}
		if err := create(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if c.pause {
			if _, err := r.js.PauseConsumer(t.Context(), stream, cfg.Durable, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		said := ""
		for _, f := range r.report().Findings {
			if f.Level == fleet.Problem && strings.Contains(f.Sentence, "webhook") {
				said = f.Sentence
			}
		}
		if c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: the report says %q, want %q", c.what, said, c.says)
		}
		if err := r.js.DeleteConsumer(t.Context(), stream, cfg.Durable); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersGoToInboxesOnly: messages that a consumer delivers to the question subject get no
// answer, and neither does a question with another process's subject as its reply. The process
// answers the next question.
func TestAnswersGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	r.waitForReport("a worker that reads", func(rep *fleet.Report) bool { return rep.Partitions.Phases["reading"] == 2 })
	all, err := r.nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := all.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	report := wire.ReportSubject(job)
	if _, err := r.js.CreateOrUpdatePushConsumer(t.Context(), wire.OutputStream(job), jetstream.ConsumerConfig{Durable: "killer", DeliverSubject: report, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	replies := []string{"$JS.ACK.EUSN-OUT.killer.1.1.1.1.0", "$JS.API.STREAM.DELETE.EUSN-OUT", "sensors.a", job + ".out.0", job + ".alarms.acknowledge", "INBOX.a", "_INBOXES.a"}
	for _, reply := range replies {
		if err := r.nc.PublishRequest(report, reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.nc.Request(report, nil, pipelinetest.Patience); err != nil {
		t.Errorf("a real question: %v", err)
	}
	delivered, answered := 0, 0
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end) && (delivered < 4 || answered == 0); {
		m, err := all.NextMsg(200 * time.Millisecond)
		if err == nats.ErrTimeout {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(m.Reply, ".EUSN-OUT.killer."): // with its subject in the NATS stream
			delivered++
		case strings.Contains(string(m.Data), `"form":`) && !strings.HasPrefix(m.Subject, "_INBOX."):
			t.Errorf("an answer went to %s", m.Subject)
		case strings.Contains(string(m.Data), `"form":`):
			answered++
		}
	}
	if delivered < 4 || answered == 0 { // one of these has the reply of the test
		t.Errorf("%d messages delivered, %d answers: nothing is tested", delivered, answered)
	}
	if status := w.counters.Status(); status.Unready() != nil {
		t.Errorf("the stage is not ready: %q", status.Unready())
	}
	if n := len(w.journal.LastMessages()); n > 0 {
		t.Errorf("the log has errors: %+v", w.journal.LastMessages())
	}
}
