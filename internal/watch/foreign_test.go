package watch_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// junk publishes what is no event on each subject of the alarm log.
func (r *rig) junk() {
	r.t.Helper()
	for _, subject := range []string{wire.AlarmSubject("job", "rub", alarm.Token("s")), wire.AlarmRulesSubject("job"), "job.alarm.x"} {
		if _, err := r.js.Publish(r.t.Context(), subject, []byte("no event")); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Messages of the alarm log that are no events are left out: before the log begins, while
// a process keeps the alarms, while one stands by, and between two. No event is lost, and
// whoever reads the log sees the alarms that are on.
func TestForeignMessages(t *testing.T) {
	r := newRig(t, -1)
	book := &pipelinetest.LogBook{}
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub"})
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Ensure(t.Context(), r.js, "job", 0); err != nil {
		t.Fatal(err)
	}
	r.junk()
	var begun atomic.Int32
	o := watch.Options{Rules: rules, Save: time.Millisecond, Who: "test", Log: book.Logger(), Begun: func(alarm.Rules) { begun.Add(1) }}
	on := func() int {
		t.Helper()
		all, err := watch.On(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	first := r.start(o)
	r.await("the first process", func() bool { return begun.Load() == 1 })
	stands := make(chan bool, 16)
	second := o
	second.StandsBy = func() { stands <- true }
	other := r.start(second)
	select {
	case <-stands:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("nobody stands by")
	}
	outs := uint64(0)
	raise := func(stream string) {
		t.Helper()
		before := on()
		r.junk()
		outs++
		r.send(bad(stream, outs, 2))
		r.await("the alarm of "+stream, func() bool { return on() == before+1 })
		r.junk()
		if n := on(); n != before+1 {
			t.Errorf("%d alarms are on, want %d: a message that is no event hides one", n, before+1)
		}
	}
	raise("s")
	raise("t")
	r.end(first)
	r.junk()
	r.await("the second process", func() bool { return begun.Load() == 2 })
	raise("u")
	if e, err := watch.CurrentRules(t.Context(), r.js, "job"); err != nil || e == nil || len(e.Rules) != 1 {
		t.Errorf("the rules that hold: %+v, %v", e, err)
	}
	r.end(other)
	third := r.start(o)
	r.await("the third process", func() bool { return begun.Load() == 3 })
	raise("v")
	r.end(third)
	if book.Lines("is no event and is left out") == 0 {
		t.Error("the log does not report what was left out")
	}
	for i, e := range r.events() {
		if e.Number != uint64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Number)
		}
	}
}

// A consumer can deliver the messages of a NATS stream to where a process answers. They are
// no requests: nothing is answered, and the process goes on.
func TestConsumerDeliversHere(t *testing.T) {
	r := newRig(t, -1)
	book := &pipelinetest.LogBook{}
	begun := make(chan bool, 1)
	p := r.start(watch.Options{Log: book.Logger(), Begun: func(alarm.Rules) { begun <- true }})
	<-begun
	nc, err := r.server.Connect("listener", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	acks, err := nc.SubscribeSync("$JS.ACK.>") // an answer would come here
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{wire.AlarmAckSubject("job"), wire.AlarmSetSubject("job"), wire.AlarmAliveSubject("job")} {
		name := "killer" + strings.ReplaceAll(subject, ".", "-")
		if _, err := r.js.CreateOrUpdatePushConsumer(t.Context(), wire.OutputStream("job"), jetstream.ConsumerConfig{Durable: name, DeliverSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 100 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	r.send(bad("s", 1, 2))
	if m, err := acks.NextMsg(time.Second); err != nats.ErrTimeout {
		t.Errorf("what a consumer delivered was answered: %v, %v", m, err)
	}
	if book.Lines("no request") != 1 {
		t.Errorf("the log reports it %d times, want once", book.Lines("no request"))
	}
	if _, err := watch.SetRules(t.Context(), nc, "job", watch.RuleSet{Rules: map[string]string{"rub": "class rub"}, Who: "test"}); err != nil {
		t.Errorf("a real request: %v", err)
	}
	r.end(p)
}
