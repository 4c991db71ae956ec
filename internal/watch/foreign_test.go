package watch_test

import (
	"encoding/json"
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

// publishForeign publishes a message that is no event on each subject of the alarm log.
func (r *rig) publishForeign() {
	r.t.Helper()
	for _, subject := range []string{wire.AlarmSubject("job", "rub", alarm.Token("s")), wire.AlarmRulesSubject("job"), "job.alarm.x"} {
		if _, err := r.js.Publish(r.t.Context(), subject, []byte("no event")); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestForeignMessages: foreign messages in the alarm log are skipped: before the log starts, while
// a process keeps the alarms, while a process stands by, and between two processes. No event is
// lost, and readers of the log see the active alarms.
func TestForeignMessages(t *testing.T) {
	r := newRig(t, -1)
	book := &pipelinetest.LogBook{}
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub"})
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.EnsureStreams(t.Context(), r.js, "job", 0); err != nil {
		t.Fatal(err)
	}
	r.publishForeign()
	var begun atomic.Int32
	o := watch.Options{Rules: rules, Save: time.Millisecond, Who: "test", Log: book.Logger(), Begun: func(alarm.Rules) { begun.Add(1) }}
	on := func() int {
		t.Helper()
		all, err := watch.ActiveAlarms(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	first := r.startProcess(o)
	r.waitFor("the first process", func() bool { return begun.Load() == 1 })
	stands := make(chan bool, 16)
	second := o
	second.StandsBy = func() { stands <- true }
	other := r.startProcess(second)
	select {
	case <-stands:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("nobody stands by")
	}
	outs := uint64(0)
	raise := func(stream string) {
		t.Helper()
		before := on()
		r.publishForeign()
		outs++
		r.publishOutput(badMessage(stream, outs, 2))
		r.waitFor("the alarm of "+stream, func() bool { return on() == before+1 })
		r.publishForeign()
		if n := on(); n != before+1 {
			t.Errorf("%d alarms are on, want %d: a message that is no event hides one", n, before+1)
		}
	}
	raise("s")
	raise("t")
	r.stopProcess(first)
	r.publishForeign()
	r.waitFor("the second process", func() bool { return begun.Load() == 2 })
	raise("u")
	if e, err := watch.CurrentRules(t.Context(), r.js, "job"); err != nil || e == nil || len(e.Rules) != 1 {
		t.Errorf("the rules that hold: %+v, %v", e, err)
	}
	r.stopProcess(other)
	third := r.startProcess(o)
	r.waitFor("the third process", func() bool { return begun.Load() == 3 })
	raise("v")
	r.stopProcess(third)
	if book.Lines("is no event and is skipped") == 0 {
		t.Error("the log does not report what was left out")
	}
	for i, e := range r.readEvents() {
		if e.Number != uint64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Number)
		}
	}
}

// TestForeignMessageWithinState: a foreign message between the pieces of a state is skipped.
func TestForeignMessageWithinState(t *testing.T) {
	r := newRig(t, -1)
	begun := make(chan bool, 2)
	o := watch.Options{Rules: alarm.Rules{}, Who: "test", Begun: func(alarm.Rules) { begun <- true }}
	p := r.startProcess(o)
	<-begun
	r.stopProcess(p)
	log, err := r.js.Stream(t.Context(), wire.AlarmStream("job"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(subject string) []byte {
		t.Helper()
		m, err := log.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		return m.Data
	}
	publish := func(subject string, data []byte) uint64 {
		t.Helper()
		ack, err := r.js.Publish(t.Context(), subject, data)
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	state, record := read(wire.AlarmStateSubject("job")), map[string]any{}
	if err := json.Unmarshal(read(wire.AlarmRecordSubject("job")), &record); err != nil {
		t.Fatal(err)
	}
	record["first"] = publish(wire.AlarmStateSubject("job"), state[:len(state)/2])
	r.publishForeign()
	record["last"] = publish(wire.AlarmStateSubject("job"), state[len(state)/2:])
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	publish(wire.AlarmRecordSubject("job"), data)
	p = r.startProcess(o)
	select {
	case <-begun:
		r.stopProcess(p)
	case err := <-p.done:
		t.Fatal(err)
	case <-time.After(pipelinetest.Patience):
		t.Fatal("the process does not begin")
	}
}

// TestConsumerDeliversHere: a consumer may deliver the messages of a NATS stream to the request
// subjects. They are no requests: the process sends no answer and continues.
func TestConsumerDeliversHere(t *testing.T) {
	r := newRig(t, -1)
	book := &pipelinetest.LogBook{}
	begun := make(chan bool, 1)
	p := r.startProcess(watch.Options{Log: book.Logger(), Begun: func(alarm.Rules) { begun <- true }})
	<-begun
	nc, err := r.server.Connect("listener", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	acks, err := nc.SubscribeSync("$JS.ACK.>") // an answer would arrive here
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{wire.AlarmAckSubject("job"), wire.AlarmSetSubject("job"), wire.AlarmAliveSubject("job")} {
		name := "killer" + strings.ReplaceAll(subject, ".", "-")
		if _, err := r.js.CreateOrUpdatePushConsumer(t.Context(), wire.OutputStream("job"), jetstream.ConsumerConfig{Durable: name, DeliverSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 100 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	r.publishOutput(badMessage("s", 1, 2))
	if m, err := acks.NextMsg(time.Second); err != nats.ErrTimeout {
		t.Errorf("what a consumer delivered was answered: %v, %v", m, err)
	}
	if book.Lines("no request") != 1 {
		t.Errorf("the log reports it %d times, want once", book.Lines("no request"))
	}
	if _, err := watch.SetRules(t.Context(), nc, "job", watch.RuleSet{Rules: map[string]string{"rub": "class rub"}, Who: "test"}); err != nil {
		t.Errorf("a real request: %v", err)
	}
	r.stopProcess(p)
}
