package watch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestPowerFailure removes the end of the job's output and keeps the alarm log: the server's files
// of the output are from an earlier time. The stage republishes the lost predictions in new
// messages. The alarms continue: each is raised and cleared once for the same predictions, and an
// event reports the failure. The result is the same for a state older than the loss, and for a
// process that starts before the predictions return. If the log loses as much as the output, or
// only the log loses messages, its events are recreated.
func TestPowerFailure(t *testing.T) {
	for _, one := range []struct {
		name   string
		save   time.Duration
		before bool   // the process starts before the predictions return
		log    string // loss of the alarm log: with the output, or only the log
	}{
		{"old state", time.Hour, false, ""}, {"new state", 1, false, ""}, {"old state, begins first", time.Hour, true, ""}, {"new state, begins first", 1, true, ""},
		{"with the log", 1, false, "too"}, {"the log alone", 1, false, "alone"},
	} {
		t.Run(one.name, func(t *testing.T) { powerFailure(t, one.save, one.before, one.log) })
	}
}

// classes per stream, one per round; rub raises after two of three, two others clear. Rounds 3 to 6
// are lost.
var courses = []string{
	"220002200022", "002200022000", "222222222222", "020202020202", "000220000220", "200200220000", "222000000000", "000000000022",
}

func powerFailure(t *testing.T, save time.Duration, before bool, log string) {
	const lost, last, rounds = 3, 7, 12
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub, 2 of 3, clear after 2", "once": "class rub"})
	if err != nil {
		t.Fatal(err)
	}
	outs := map[int]uint64{}
	round := func(n int, streams ...int) { // publishes the predictions of round n as one message
		t.Helper()
		m := alarm.Message{Partition: streams[0] % 2}
		for _, s := range streams {
			m.Predictions = append(m.Predictions, codec.Prediction{Stream: fmt.Sprint("s", s), Seq: uint64(n), Answer: outcome.Answer{Class: int32(courses[s][n] - '0')}, Time: codec.NoTime})
		}
		outs[m.Partition] += uint64(len(streams))
		m.Outs = outs[m.Partition]
		r.publishOutput(m)
	}
	o := watch.Options{Rules: rules, Since: time.Unix(1, 0), Save: save}
	begin := func() *process {
		t.Helper()
		begun := make(chan struct{})
		o.Begun = func(alarm.Rules) { close(begun) }
		p := r.startProcess(o)
		select {
		case <-begun:
		case err := <-p.done:
			t.Fatalf("the process ends: %v", err)
		}
		return p
	}
	want := func(to int) map[string]string { // expected changes of each alarm in rounds 0 to to-1, per stream
		all := map[string]string{}
		for s, course := range courses {
			for rule, k := range map[string]int{"rub": 2, "once": 1} {
				on, since, key := false, 0, fmt.Sprint(rule, " s", s)
				for n := range to {
					seen := course[since : n+1]
					window := seen[max(0, len(seen)-2*k+1):]
					switch {
					case !on && strings.Count(window, "2") >= k:
						on, since = true, n+1
						all[key] += "raised "
					case on && len(seen) >= k && !strings.Contains(seen[len(seen)-k:], "2"):
						on, since = false, n+1
						all[key] += "cleared "
					}
				}
			}
		}
		return all
	}
	events := func() (all map[string]string, said int) {
		all = map[string]string{}
		for i, e := range r.readEvents() {
			if e.Number != uint64(i)+1 {
				t.Fatalf("event %d has number %d", i+1, e.Number)
			}
			switch {
			case e.Kind != alarm.RulesChanged:
				all[e.Rule+" "+e.Key] += e.Kind + " "
			case strings.Contains(e.Why, "went back in time"):
				said++
			}
		}
		return all, said
	}
	same := func(to int) bool {
		time.Sleep(20 * time.Millisecond) // each query creates a consumer
		got, _ := events()
		return fmt.Sprint(got) == fmt.Sprint(want(to))
	}
	p := begin()
	for n := range lost {
		round(n, 0, 2, 4, 6)
		round(n, 1, 3, 5, 7)
	}
	r.waitFor("the first events", func() bool { return same(lost) })
	restart := func(change func(streams string)) {
		t.Helper()
		p.kill()
		<-p.done
		r.server.Close()
		change(filepath.Join(r.dir, "jetstream", "$G", "streams"))
		r.startServer()
	}
	cut := t.TempDir()
	restart(func(streams string) {
		if err := os.CopyFS(cut, os.DirFS(streams)); err != nil {
			t.Fatal(err)
		}
	})
	p = begin()
	at := map[int]uint64{0: outs[0], 1: outs[1]}
	for n := lost; n < last; n++ {
		round(n, 1, 3, 5, 7)
		round(n, 0, 2, 4, 6)
	}
	r.waitFor("the events of what will be lost", func() bool { return same(last) })
	r.waitFor("the state", func() bool { return save > time.Second || r.savedPosition() == r.sent[len(r.sent)-1].Seq })
	back := map[string][]string{"": {wire.OutputStream("job")}, "too": {wire.OutputStream("job"), wire.AlarmStream("job")}, "alone": {wire.AlarmStream("job")}}[log]
	restart(func(streams string) {
		for _, name := range back {
			if err := os.RemoveAll(filepath.Join(streams, name)); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(filepath.Join(streams, name), os.DirFS(filepath.Join(cut, name))); err != nil {
				t.Fatal(err)
			}
		}
	})
	if before {
		p = begin()
	}
	again := last
	if log != "alone" {
		outs, again = at, lost
	}
	for n := again; n < last; n++ { // first one partition, in smaller messages
		round(n, 0, 2)
		round(n, 4, 6)
	}
	for n := again; n < last; n++ {
		round(n, 1)
		round(n, 3, 5, 7)
	}
	round(last, 0, 2, 4, 6)
	if !before {
		p = begin()
	}
	round(last, 1, 3, 5, 7)
	for n := last + 1; n < rounds; n++ {
		round(n, 0, 2, 4, 6)
		round(n, 1, 3, 5, 7)
	}
	r.waitFor("the events of all", func() bool { return same(rounds) })
	r.stopProcess(p)
	p = begin() // a restart adds nothing
	r.stopProcess(p)
	got, said := events()
	if fmt.Sprint(got) != fmt.Sprint(want(rounds)) || (said == 1) != (log == "") {
		t.Errorf("the log has\n%v\nwant\n%v; it says %d times what happened", got, want(rounds), said)
	}
}

// TestProgressIsKept kills a process that catches up with a long log: the comparison's progress is
// stored, and the next process continues from there. Each event exists once.
func TestProgressIsKept(t *testing.T) {
	r := newRig(t, -1)
	rules := []alarmtest.Rule{{Name: "one", Classes: []string{"rub"}, K: 1, N: 1, ClearAfter: 1}}
	o := watch.Options{Rules: rulesOf(t, rules), Since: time.Unix(1, 0), Save: time.Hour}
	p := r.startProcess(o)
	const messages = 300
	for i := range uint64(messages) {
		r.publishOutput(badMessage("s", i+1, int32(i%2)*2))
	}
	count := func() int { return len(r.readEvents()) }
	r.waitFor("all events", func() bool { time.Sleep(20 * time.Millisecond); return count() == messages }) // the first event sets the rules, the first prediction raises none
	p.kill()
	<-p.done
	old := r.savedPosition()
	o.Save = 1
	p = r.startProcess(o)
	r.waitFor("some progress", func() bool { return r.savedPosition() > old })
	p.kill()
	<-p.done
	amid := r.savedPosition()
	o.Save = time.Hour
	begun := make(chan struct{})
	o.Begun = func(alarm.Rules) { close(begun) }
	p = r.startProcess(o)
	select {
	case <-begun:
	case err := <-p.done:
		t.Fatalf("the process ends: %v", err)
	}
	r.publishOutput(badMessage("s", messages+1, 0))
	r.publishOutput(badMessage("s", messages+2, 2))
	r.waitFor("the next events", func() bool { time.Sleep(20 * time.Millisecond); return count() == messages+2 })
	r.stopProcess(p)
	alarmtest.WantEvents(t, alarmtest.Shift(r.readEvents()[1:]), alarmtest.ExpectEvents(rules, r.history()))
	t.Logf("killed at message %d, behind the state of message %d, of %d", amid, old, messages)
}
