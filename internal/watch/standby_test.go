package watch_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// TestStandby runs two processes: one keeps the alarms, and the other follows. When the first
// process is killed, the second continues at once from its followed state: the stored state is from
// the start. Each event is published once, and the latest data matches the last predictions.
func TestStandby(t *testing.T) {
	r := newRig(t, -1)
	rng := rand.New(rand.NewPCG(5, 19))
	rules := withShortTimes(alarmtest.RandomRules(rng))
	for len(rules) < 4 {
		rules = withShortTimes(alarmtest.RandomRules(rng))
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	writes, stands := make(chan int, 64), make(chan int, 64)
	running := map[int]*process{}
	start := func(i int) {
		running[i] = r.startProcess(watch.Options{
			Rules: rulesOf(t, rules), Save: time.Hour, Log: log,
			Writes: func() { writes <- i }, StandsBy: func() { stands <- i },
		})
	}
	next := func(from chan int) int {
		t.Helper()
		select {
		case i := <-from:
			return i
		case <-time.After(time.Minute):
			t.Fatal("nothing happens for a minute")
		}
		return 0
	}
	start(0)
	keeper := next(writes)
	start(1)
	next(stands)
	const kills, each = 9, 150 // the last of three processes
	messages := alarmtest.RandomMessages(rng, 40, kills*each)
	for i, m := range messages[:(kills-1)*each] {
		r.publishOutput(m)
		if i%each != each/2 {
			continue
		}
		running[keeper].kill()
		<-running[keeper].done
		gone := keeper
		keeper = next(writes)
		start(gone)
		next(stands)
	}
	for i := 2; i < 4; i++ {
		start(i)
		next(stands)
	}
	running[keeper].kill()
	<-running[keeper].done
	delete(running, keeper)
	keeper = next(writes)
	for _, m := range messages[(kills-1)*each:] {
		r.publishOutput(m)
	}
	last := r.sent[len(r.sent)-1].Seq
	r.waitFor("the events of all", func() bool { return len(r.readEvents()) == len(alarmtest.ExpectEvents(rules, r.history()))+1 })
	for i, p := range running {
		if i != keeper {
			r.stopProcess(p)
		}
	}
	r.stopProcess(running[keeper])
	if r.savedPosition() != last {
		t.Errorf("the last state is of message %d, want %d", r.savedPosition(), last)
	}
	want := alarmtest.ExpectEvents(rules, r.history())
	alarmtest.WantEvents(t, alarmtest.Shift(r.readEvents()[1:]), want)
	r.compareLatest(want)
	if n := strings.Count(said.String(), "taking the alarms over from the followed state"); n != kills {
		t.Errorf("%d of %d times a process went on behind what it had followed; they say\n%s", n, kills, said.String())
	}
}

// TestStandbyKnowsFacts: a standby knows the acknowledgements, rules and silences since it began to
// follow.
func TestStandbyKnowsFacts(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub", "dead": "silent 1ms, streams quiet"})
	if err != nil {
		t.Fatal(err)
	}
	begun, stands := make(chan struct{}, 8), make(chan struct{}, 8)
	o := watch.Options{Rules: rules, Save: time.Hour, Begun: func(alarm.Rules) { begun <- struct{}{} }, StandsBy: func() { stands <- struct{}{} }}
	p := r.startProcess(o)
	<-begun
	o.Rules = nil
	second := r.startProcess(o)
	<-stands
	r.publishOutput(badMessage("s", 1, 2))
	r.publishOutput(badMessage("quiet", 2, 0))
	on := func() []alarm.Event {
		all, err := watch.ActiveAlarms(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	r.waitFor("two alarms", func() bool { return len(on()) == 2 })
	if _, err := watch.Acknowledge(t.Context(), r.js.Conn(), "job", watch.Acknowledgement{Rule: "rub", Key: "s", Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.SetRules(t.Context(), r.js.Conn(), "job", watch.RuleSet{Rules: map[string]string{"rub": "class rub, 2 of 2"}, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	r.stopProcess(p) // orderly: the standby takes over at once
	<-begun
	r.publishOutput(badMessage("s", 3, 0))
	r.publishOutput(badMessage("s", 4, 0))
	r.waitFor("the end of the alarm", func() bool { return len(on()) == 0 })
	r.stopProcess(second)
	kinds := ""
	for _, e := range r.readEvents() {
		kinds += e.Kind + " " + e.Rule + e.Key + e.Why + "\n"
	}
	if want := "rules \nraised rubs\nraised deadquiet\nacknowledged rubs\nrules \ncleared deadquietthe rule was changed or removed\ncleared rubs\n"; kinds != want {
		t.Errorf("the log has\n%swant\n%s", kinds, want)
	}
}

// TestStandbyWithoutAnswers: a standby without answers takes the alarms over even if the server
// reports a listener; the previous keeper ends when it resumes.
func TestStandbyWithoutAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, -1)
	rules := []alarmtest.Rule{{Name: "one", Classes: []string{"rub"}, K: 1, N: 1, ClearAfter: 1}}
	begun, stands := make(chan struct{}, 8), make(chan struct{}, 8)
	o := watch.Options{Rules: rulesOf(t, rules), Begun: func(alarm.Rules) { begun <- struct{}{} }, StandsBy: func() { stands <- struct{}{} }}
	p := r.startProcess(o)
	<-begun
	r.stopProcess(p) // creates the log
	silent := atomic.Bool{}
	nc, err := r.server.Connect("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe(wire.AlarmRequestSubjects("job"), func(m *nats.Msg) {
		if !silent.Load() {
			_ = m.Respond([]byte(`{"writer":"other"}`))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	p = r.startProcess(o)
	<-stands
	for i := range uint64(4) {
		r.publishOutput(badMessage("s", i+1, int32(i%2)*2))
	}
	select {
	case <-begun:
		t.Error("it takes the alarms over from a process that is there")
	default:
	}
	silent.Store(true)
	<-begun
	r.waitFor("the events", func() bool { return len(r.readEvents()) == 4 })
	r.stopProcess(p)
	alarmtest.WantEvents(t, alarmtest.Shift(r.readEvents()[1:]), alarmtest.ExpectEvents(rules, r.history()))
}

// TestWaitsForReconnectingKeeper: a starting process finds no keeper while the keeper reconnects to a
// restarted server. The process waits as long as the keeper's client may, and then hears the
// keeper. It does not wait if no process can keep the alarms yet, or if the keeper last wrote on
// the same running server.
func TestWaitsForReconnectingKeeper(t *testing.T) {
	t.Parallel()
	r := newRig(t, -1)
	writes, stands := make(chan time.Time, 8), make(chan struct{}, 8)
	o := watch.Options{Writes: func() { writes <- time.Now() }, StandsBy: func() { stands <- struct{}{} }}
	p := r.startProcess(o)
	<-writes
	r.stopProcess(p) // creates the log
	r.wait = time.Hour
	p = r.startProcess(o)
	<-writes
	r.stopProcess(p)
	r.wait = 0
	r.server.Close()
	r.startServer()
	began := time.Now()
	p = r.startProcess(o)
	if took, want := (<-writes).Sub(began), p.nc.Opts.ReconnectWait+p.nc.Opts.ReconnectJitter; took < want {
		t.Errorf("it takes the alarms over after %v, want %v at least", took, want)
	}
	second := r.startProcess(o)
	<-stands
	r.stopProcess(second)
	r.stopProcess(p)
}
