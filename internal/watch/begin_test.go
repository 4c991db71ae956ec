package watch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// TestKilledAfterEachMessage kills a process after each message of its log: the first messages of
// a new log, an event, a piece of a state, a record. In each case the next process creates the same
// events from the remaining log.
func TestKilledAfterEachMessage(t *testing.T) {
	r := newRig(t, -1)
	for i := range 16 {
		m := badMessage(fmt.Sprint("s", i%2), uint64(i/2+1), []int32{2, 1, 0, 0}[i/2%4])
		m.Partition = i % 2
		r.publishOutput(m)
	}
	rules := []alarmtest.Rule{
		{Name: "one", Classes: []string{"rub"}, K: 1, N: 1, ClearAfter: 1},
		{Name: "some", Classes: []string{"imbalance", "rub"}, K: 2, N: 3, ClearAfter: 1},
	}
	want := alarmtest.ExpectEvents(rules, r.history())
	run := func() {
		begun := make(chan struct{})
		p := r.startProcess(watch.Options{Rules: rulesOf(t, rules), Since: time.Unix(1, 0), Save: 1, Begun: func(alarm.Rules) { close(begun) }})
		select {
		case <-begun:
		case err := <-p.done:
			t.Fatalf("the process ends: %v", err)
		}
		r.waitFor("all to be judged", func() bool { return r.savedPosition() >= r.sent[len(r.sent)-1].Seq })
		r.stopProcess(p)
		got := r.readEvents()
		if got[0].Kind != alarm.RulesChanged {
			t.Fatalf("the log begins with %+v", got[0])
		}
		alarmtest.WantEvents(t, alarmtest.Shift(got[1:]), want)
	}
	messages := map[int]*nats.Msg{} // of the first log, by number; earlier states are removed from it
	sub, err := r.js.Conn().SubscribeSync(wire.AlarmSubjects("job"))
	if err != nil {
		t.Fatal(err)
	}
	run()
	log, err := r.js.Stream(t.Context(), wire.AlarmStream("job"))
	if err != nil {
		t.Fatal(err)
	}
	last := int(log.CachedInfo().State.LastSeq)
	r.waitFor("the messages of the log", func() bool {
		for {
			m, err := sub.NextMsg(time.Millisecond)
			if err != nil {
				return len(messages) == last
			}
			before, err := strconv.Atoi(m.Header.Get(jetstream.ExpectedLastSeqHeader))
			if err != nil {
				t.Fatal(err)
			}
			messages[before+1] = m
		}
	})
	for n := range last {
		r.waitFor("an empty log", func() bool { // the server may remove the old log's files later
			if err := errors.Join(r.js.DeleteStream(t.Context(), wire.AlarmStream("job")), watch.EnsureStreams(t.Context(), r.js, "job", 0)); err != nil {
				t.Fatal(err)
			}
			log, err := r.js.Stream(t.Context(), wire.AlarmStream("job"))
			return err == nil && log.CachedInfo().State.LastSeq == 0
		})
		for i := range n {
			m := messages[i+1]
			m.Header.Del(jetstream.ExpectedLastSeqHeader)
			if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
				t.Fatal(err)
			}
		}
		run()
	}
	if len(want) < 8 || last < 40 {
		t.Errorf("only %d events and %d messages", len(want), last)
	}
}

// slow is a connection that calls a function after each stream query.
type slow struct {
	jetstream.JetStream
	then func(name string)
}

func (s slow) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	found, err := s.JetStream.Stream(ctx, name)
	s.then(name)
	return found, err
}

// TestJudgedDuringTakeOver: during a take-over, the previous process judges and stores more
// messages than the output had at the new process's first query. The output did not go back in
// time: no warning is logged, and no message is skipped.
func TestJudgedDuringTakeOver(t *testing.T) {
	r := newRig(t, -1)
	rules := []alarmtest.Rule{{Name: "one", Classes: []string{"rub"}, K: 1, N: 1, ClearAfter: 1}}
	outs := uint64(0)
	judged := func() {
		for range 2 {
			outs++
			r.publishOutput(badMessage("s", outs, int32(outs%2)*2))
		}
		r.waitFor("all to be judged", func() bool { return r.savedPosition() >= r.sent[len(r.sent)-1].Seq })
	}
	begun := make(chan struct{})
	before := r.startProcess(watch.Options{Rules: rulesOf(t, rules), Save: 1, Begun: func(alarm.Rules) { close(begun) }})
	<-begun
	judged()

	nc, err := r.server.Connect("alarms", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	looked := 0
	js := slow{r.js, func(name string) {
		if name == wire.OutputStream("job") {
			looked++
			judged()
		}
	}}
	var said bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	o := watch.Options{Job: "job", Rules: rulesOf(t, rules), Save: 1, TakeOver: true, Log: slog.New(slog.NewTextHandler(&said, nil)), Begun: func(alarm.Rules) { stop() }}
	if err := watch.RunWith(ctx, nc, js, o); err != nil {
		t.Fatal(err)
	}
	if err := <-before.done; !errors.Is(err, watch.ErrFenced) {
		t.Errorf("the process before ends with %v", err)
	}
	if looked == 0 || strings.Contains(said.String(), "back in time") {
		t.Errorf("%d looks at the output; said\n%s", looked, said.String())
	}
	alarmtest.WantEvents(t, alarmtest.Shift(r.readEvents()[1:]), alarmtest.ExpectEvents(rules, r.history()))
}

// TestEventsWithoutRecord: a log with events but without a record stays unchanged, and the error's
// first advice is an inspection.
func TestEventsWithoutRecord(t *testing.T) {
	r := newRig(t, -1)
	if err := watch.EnsureStreams(t.Context(), r.js, "job", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.Publish(t.Context(), wire.AlarmSubject("job", "rub", "s"), []byte(`{"number":1,"event":"raised","rule":"rub","key":"s","alarm":1}`)); err != nil {
		t.Fatal(err)
	}
	err := watch.Run(t.Context(), r.js.Conn(), watch.Options{Job: "job"})
	text := fmt.Sprint(err)
	look, keep, remove := strings.Index(text, "inspect the alarm log first"), strings.Index(text, "nats stream backup JOB-ALARMS"), strings.Index(text, "nats stream rm JOB-ALARMS")
	if !strings.Contains(text, "no record") || look < 0 || keep < look || remove < keep {
		t.Errorf("%v", err)
	}
	log, err := r.js.Stream(t.Context(), wire.AlarmStream("job"))
	if err != nil || log.CachedInfo().State.Msgs != 1 {
		t.Errorf("%v, %+v", err, log.CachedInfo().State)
	}
}
