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

// Of two processes one keeps the alarms, and the other one follows it. Whenever the first one
// is killed, the other one goes on at once, behind what it has followed: the state that is stored is of
// the beginning. Each event is published once, and what is known of the streams is that of
// their last predictions.
func TestStandby(t *testing.T) {
	r := newRig(t, -1)
	rng := rand.New(rand.NewPCG(5, 19))
	rules := quick(alarmtest.RandomRules(rng))
	for len(rules) < 4 {
		rules = quick(alarmtest.RandomRules(rng))
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	writes, stands := make(chan int, 64), make(chan int, 64)
	running := map[int]*process{}
	start := func(i int) {
		running[i] = r.start(watch.Options{
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
	const kills, each = 9, 150 // the last one of three processes
	messages := alarmtest.RandomMessages(rng, 40, kills*each)
	for i, m := range messages[:(kills-1)*each] {
		r.send(m)
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
		r.send(m)
	}
	last := r.sent[len(r.sent)-1].Seq
	r.await("the events of all", func() bool { return len(r.events()) == len(alarmtest.ExpectEvents(rules, r.past()))+1 })
	for i, p := range running {
		if i != keeper {
			r.end(p)
		}
	}
	r.end(running[keeper])
	if r.position() != last {
		t.Errorf("the last state is of message %d, want %d", r.position(), last)
	}
	want := alarmtest.ExpectEvents(rules, r.past())
	alarmtest.WantEvents(t, alarmtest.Shift(r.events()[1:]), want)
	r.latest(want)
	if n := strings.Count(said.String(), "taking the alarms over behind what this process has followed"); n != kills {
		t.Errorf("%d of %d times a process went on behind what it had followed; they say\n%s", n, kills, said.String())
	}
}

// What was acknowledged, set and found silent while a process followed is known to it when
// it goes on.
func TestStandbyKnowsFacts(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub", "dead": "silent 1ms, streams quiet"})
	if err != nil {
		t.Fatal(err)
	}
	begun, stands := make(chan struct{}, 8), make(chan struct{}, 8)
	o := watch.Options{Rules: rules, Save: time.Hour, Begun: func(alarm.Rules) { begun <- struct{}{} }, StandsBy: func() { stands <- struct{}{} }}
	p := r.start(o)
	<-begun
	o.Rules = nil
	second := r.start(o)
	<-stands
	r.send(bad("s", 1, 2))
	r.send(bad("quiet", 2, 0))
	on := func() []alarm.Event {
		all, err := watch.On(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	r.await("two alarms", func() bool { return len(on()) == 2 })
	if _, err := watch.Acknowledge(t.Context(), r.js.Conn(), "job", watch.Acknowledgement{Rule: "rub", Key: "s", Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.SetRules(t.Context(), r.js.Conn(), "job", watch.RuleSet{Rules: map[string]string{"rub": "class rub, 2 of 2"}, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	r.end(p) // in order: the other one takes over at once
	<-begun
	r.send(bad("s", 3, 0))
	r.send(bad("s", 4, 0))
	r.await("the end of the alarm", func() bool { return len(on()) == 0 })
	r.end(second)
	kinds := ""
	for _, e := range r.events() {
		kinds += e.Kind + " " + e.Rule + e.Key + e.Why + "\n"
	}
	if want := "rules \nraised rubs\nraised deadquiet\nacknowledged rubs\nrules \ncleared deadquietthe rule was changed or removed\ncleared rubs\n"; kinds != want {
		t.Errorf("the log has\n%swant\n%s", kinds, want)
	}
}

// A process that hears nothing of the one that keeps the alarms, though the server knows
// that it listens, takes them over; that one ends when it goes on.
func TestStandbyOfOneWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, -1)
	rules := []alarmtest.Rule{{Name: "one", Classes: []string{"rub"}, K: 1, N: 1, ClearAfter: 1}}
	begun, stands := make(chan struct{}, 8), make(chan struct{}, 8)
	o := watch.Options{Rules: rulesOf(t, rules), Begun: func(alarm.Rules) { begun <- struct{}{} }, StandsBy: func() { stands <- struct{}{} }}
	p := r.start(o)
	<-begun
	r.end(p) // there is a log
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
	p = r.start(o)
	<-stands
	for i := range uint64(4) {
		r.send(bad("s", i+1, int32(i%2)*2))
	}
	select {
	case <-begun:
		t.Error("it takes the alarms over from a process that is there")
	default:
	}
	silent.Store(true)
	<-begun
	r.await("the events", func() bool { return len(r.events()) == 4 })
	r.end(p)
	alarmtest.WantEvents(t, alarmtest.Shift(r.events()[1:]), alarmtest.ExpectEvents(rules, r.past()))
}

// A process that begins hears nobody where the one that keeps the alarms is on its way back to a
// server that has begun just now. It waits as long as that one's client may, and hears it then.
// It does not wait where no process can keep the alarms yet, nor where the server is still the
// one on which that process wrote last.
func TestWaitsForOneOnItsWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, -1)
	writes, stands := make(chan time.Time, 8), make(chan struct{}, 8)
	o := watch.Options{Writes: func() { writes <- time.Now() }, StandsBy: func() { stands <- struct{}{} }}
	p := r.start(o)
	<-writes
	r.end(p) // there is a log
	r.wait = time.Hour
	p = r.start(o)
	<-writes
	r.end(p)
	r.wait = 0
	r.server.Close()
	r.serve()
	began := time.Now()
	p = r.start(o)
	if took, want := (<-writes).Sub(began), p.nc.Opts.ReconnectWait+p.nc.Opts.ReconnectJitter; took < want {
		t.Errorf("it takes the alarms over after %v, want %v at least", took, want)
	}
	second := r.start(o)
	<-stands
	r.end(second)
	r.end(p)
}
