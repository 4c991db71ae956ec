package alarm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// newFold returns a fold with rules that have no event: the first alarm is event 1.
func newFold(t testing.TB, rules []alarmtest.Rule) *alarm.Fold {
	t.Helper()
	texts := map[string]string{}
	for _, w := range rules {
		texts[w.Name] = w.FormatRule()
	}
	parsed, err := alarm.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(parsed, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	return f
}

// judgeAll judges messages, and checks the clock after each message.
func judgeAll(t testing.TB, f *alarm.Fold, messages []alarm.Message) (events []alarm.Event) {
	t.Helper()
	for i := range messages {
		now, err := f.JudgeMessage(&messages[i])
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, now...)
		for _, e := range f.Silences(clockTime(&messages[i]), time.Time{}) {
			if more, err := f.ApplyFact(e); err != nil || len(more) > 0 {
				t.Fatalf("%v: %v", more, err)
			}
			events = append(events, e)
		}
	}
	return events
}

// clockTime is the time of the clock check after a message.
func clockTime(m *alarm.Message) time.Time { return m.Stored.Add(time.Minute) }

func oracleHistory(messages []alarm.Message) (all []alarmtest.Entry) {
	for i := range messages {
		m := &messages[i]
		for _, p := range m.Predictions {
			all = append(all, alarmtest.Entry{Position: m.Seq, Stored: m.Stored, P: p, Class: m.Labels[p.Class]})
		}
		all = append(all, alarmtest.Entry{Position: m.Seq, Stored: clockTime(m), Look: true})
	}
	return all
}

// TestOracle compares the fold with an oracle that rejudges all predictions each time.
func TestOracle(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rules, messages := alarmtest.RandomRules(rng), alarmtest.RandomMessages(rng, 9, 70)
		want := alarmtest.ExpectEvents(rules, oracleHistory(messages))
		alarmtest.WantEvents(t, alarmtest.Shift(judgeAll(t, newFold(t, rules), messages)), want)
		for _, e := range want {
			kinds[e.Kind]++
		}
	}
	if kinds[alarm.Raised] < 500 || kinds[alarm.Cleared] < 300 {
		t.Errorf("too little has happened: %v", kinds)
	}
}

// TestResume: a fold that was stored, decoded, and given some messages twice has the same results.
// Facts come from the log.
func TestResume(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		rules, messages := alarmtest.RandomRules(rng), alarmtest.RandomMessages(rng, 9, 70)
		whole := newFold(t, rules)
		want := judgeAll(t, whole, messages)

		f := newFold(t, rules)
		cut := rng.IntN(len(messages))
		got := judgeAll(t, f, messages[:cut])
		stored, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if f, err = alarm.DecodeFold(stored); err != nil {
			t.Fatal(err)
		}
		log := want[len(got):] // published before the kill, and not published
		for i := max(0, cut-3); i < len(messages); i++ {
			follows, err := f.JudgeMessage(&messages[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range follows {
				if !sameEvent(e, log[0]) {
					t.Fatalf("seed %d: %+v\nwant %+v", seed, e, log[0])
				}
				got, log = append(got, e), log[1:]
			}
			for len(log) > 0 && log[0].Position == f.Position() && i >= cut {
				if _, err := f.ApplyFact(log[0]); err != nil {
					t.Fatal(err)
				}
				got, log = append(got, log[0]), log[1:]
			}
		}
		if len(log) > 0 || len(got) != len(want) {
			t.Fatalf("seed %d: %d events, want %d", seed, len(got), len(want))
		}
		a, err1 := f.Encode()
		b, err2 := whole.Encode()
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Fatalf("seed %d: other states (%v, %v)", seed, err1, err2)
		}
	}
}

func sameEvent(a, b alarm.Event) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// TestNumbers: predictions that return in other messages, as after an output that went back in
// time, are not judged twice; missing predictions are detected.
func TestNumbers(t *testing.T) {
	f := newFold(t, []alarmtest.Rule{{Name: "a", Classes: []string{"bad"}, K: 3, N: 3, ClearAfter: 1}})
	bad := codec.Prediction{Stream: "s", Answer: outcome.Answer{Class: 1}, Time: codec.NoTime}
	m := func(seq, outs uint64, n int) *alarm.Message {
		one := alarm.Message{Seq: seq, Stored: time.Unix(int64(seq), 0), Outs: outs, Labels: []string{"ok", "bad"}}
		for range n {
			one.Predictions = append(one.Predictions, bad)
		}
		return &one
	}
	for _, c := range []struct {
		m      *alarm.Message
		events int
		err    error
	}{
		{m(10, 7, 1), 0, nil}, // the log starts at any number
		{m(11, 8, 1), 0, nil},
		{m(12, 8, 2), 0, nil}, // both are known
		{m(12, 9, 1), 0, nil}, // the same message
		{m(13, 8, 0), 0, nil}, // a record without predictions
		{m(14, 11, 1), 0, alarm.ErrMissing},
		{m(15, 10, 0), 0, alarm.ErrMissing},
		{m(16, 9, 2), 1, nil}, // one prediction is known
	} {
		events, err := f.JudgeMessage(c.m)
		if !errors.Is(err, c.err) || len(events) != c.events {
			t.Errorf("message %d: %d events, %v; want %d, %v", c.m.Seq, len(events), err, c.events, c.err)
		}
	}
	f.SkipTo(20) // the gap is accepted: the alarm stays active, and counting restarts
	if on := f.ActiveAlarms(); len(on) != 1 || on[0].Key != "s" {
		t.Errorf("after the gap %+v are on", on)
	}
	if _, err := f.JudgeMessage(m(21, 100, 1)); err != nil {
		t.Error(err)
	}
	if _, err := f.JudgeMessage(&alarm.Message{Seq: 22, Predictions: make([]codec.Prediction, 2), Outs: 1}); err == nil {
		t.Error("a message with more predictions than there were is taken")
	}
}

// TestFacts: an alarm is acknowledged once, while active; an active alarm survives other rules for the
// same streams.
func TestFacts(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := newFold(t, []alarmtest.Rule{
		{Name: "a", Classes: []string{"bad"}, K: 1, N: 1, ClearAfter: 1},
		{Name: "b", Classes: []string{"bad"}, K: 1, N: 1, ClearAfter: 1},
	})
	apply := func(e alarm.Event, events int) {
		t.Helper()
		if follows, err := f.ApplyFact(e); err != nil || len(follows) != events {
			t.Fatalf("%+v: %d events follow (%v), want %d", e, len(follows), err, events)
		}
	}
	m := alarm.Message{Seq: 5, Outs: 1, Stored: now, Labels: []string{"ok", "bad"}, Predictions: []codec.Prediction{{Stream: "s", Answer: outcome.Answer{Class: 1}}}}
	if events, err := f.JudgeMessage(&m); err != nil || len(events) != 2 {
		t.Fatalf("%v, %v", events, err)
	}
	if _, err := f.Acknowledge("a", "t", 0, "anna", now); !errors.Is(err, alarm.ErrNoAlarm) {
		t.Errorf("an alarm that is not on: %v", err)
	}
	if _, err := f.Acknowledge("a", "s", 99, "anna", now); !errors.Is(err, alarm.ErrNoAlarm) {
		t.Errorf("an alarm of another number: %v", err)
	}
	e, err := f.Acknowledge("a", "s", 2, "anna", now)
	if err != nil {
		t.Fatal(err)
	}
	apply(e, 0)
	if _, err := f.Acknowledge("a", "s", 0, "anna", now); !errors.Is(err, alarm.ErrAcknowledged) {
		t.Errorf("twice: %v", err)
	}
	if _, err := f.ApplyFact(e); err == nil {
		t.Error("the same event is applied twice")
	}
	changed, _ := f.TakeChanges(10)
	if len(changed) != 1 || fmt.Sprint(changed[0].Alarms) != "map[a:acknowledged b:raised]" || changed[0].Class != "bad" {
		t.Errorf("known of the stream: %+v", changed)
	}
	rules, err := alarm.ParseRules(map[string]string{"a": "class bad >= 0.9, 2 of 2", "b": "flag flat"})
	if err != nil {
		t.Fatal(err)
	}
	apply(f.ChangeRules(rules, "c", "anna", now), 1)
	on := f.ActiveAlarms()
	if len(on) != 1 || on[0].Rule != "a" || !on[0].Acknowledged || on[0].Alarm != 2 {
		t.Errorf("after the change %+v are on, want a", on)
	}
}

// TestEvictStreams: the number of streams is bounded: the oldest are removed, streams with alarms
// stay.
func TestEvictStreams(t *testing.T) {
	f := newFold(t, []alarmtest.Rule{{Name: "a", Classes: []string{"bad"}, K: 1, N: 1, ClearAfter: 1}, {Name: "b", Silent: time.Minute}})
	alarm.SetMaxStreams(f, 32)
	const streams = 100
	for i := range uint64(streams) {
		p := codec.Prediction{Stream: fmt.Sprint("s", i)}
		if i == 3 {
			p.Class = 1
		}
		if _, err := f.JudgeMessage(&alarm.Message{Seq: i + 1, Outs: i + 1, Labels: []string{"ok", "bad"}, Predictions: []codec.Prediction{p}, Stored: time.Unix(int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	changed, gone := f.TakeChanges(1000)
	if len(changed) > 32 || len(changed)+len(gone) != streams {
		t.Errorf("%d streams known and %d gone of %d, want at most 32 known", len(changed), len(gone), streams)
	}
	if n := len(f.Silences(time.Unix(1e6, 0), time.Time{})); n != len(changed) {
		t.Errorf("%d silences of %d streams", n, len(changed))
	}
	if on := f.ActiveAlarms(); len(on) != 1 || on[0].Key != "s3" {
		t.Errorf("%+v are on", on)
	}
}

// TestFull: if all streams have alarms at the limit, new streams are not judged until an alarm is
// cleared. A removed stream that was not stored is reported once more, even after a stored state.
func TestFull(t *testing.T) {
	f := newFold(t, []alarmtest.Rule{{Name: "a", Classes: []string{"bad"}, K: 1, N: 1, ClearAfter: 1}})
	alarm.SetMaxStreams(f, 4)
	seq := uint64(0)
	take := func(stream string, class int32) int {
		t.Helper()
		seq++
		events, err := f.JudgeMessage(&alarm.Message{Seq: seq, Outs: seq, Labels: []string{"ok", "bad"}, Predictions: []codec.Prediction{{Stream: stream, Answer: outcome.Answer{Class: class}}}, Stored: time.Unix(int64(seq), 0)})
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	for i := range 4 {
		if n := take(fmt.Sprint("s", i), 1); n != 1 || f.ReportFull() {
			t.Fatalf("stream %d: %d events", i, n)
		}
	}
	if n := take("late", 1) + take("later", 1); n != 0 || len(f.ActiveAlarms()) != 4 {
		t.Errorf("%d events of streams that are too many, %d alarms", n, len(f.ActiveAlarms()))
	}
	if !f.ReportFull() || f.ReportFull() {
		t.Error("that is said once")
	}
	if n := take("s2", 0) + take("late", 1); n != 2 || len(f.ActiveAlarms()) != 4 {
		t.Errorf("%d events once an alarm is over, %d alarms", n, len(f.ActiveAlarms()))
	}
	for range 2 {
		if changed, gone := f.TakeChanges(4); len(changed) != 4 || len(gone) != 0 {
			t.Errorf("%+v changed and %v gone, of at most 4", changed, gone)
		}
		if changed, gone := f.TakeChanges(4); len(changed) != 0 || fmt.Sprint(gone) != "[s2]" {
			t.Errorf("%+v changed and %v gone, want s2", changed, gone)
		}
		for _, name := range []string{"s0", "s1", "s2", "s3", "late"} { // nothing was stored
			f.MarkChanged(name)
		}
		state, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if f, err = alarm.DecodeFold(state); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLatestNovelty: a stream's latest data has the novelty of its last prediction, if finite.
func TestLatestNovelty(t *testing.T) {
	f := newFold(t, nil)
	nan := float32(math.NaN())
	for i, c := range []struct {
		novelty, p float32
		want       string
	}{
		{6.5, .25, `"novelty":6.5,"novelty_p":0.25`}, {0, 0, ""}, {math.MaxFloat32, .5, `"novelty":3.4028235e+38,"novelty_p":0.5`},
		{nan, .5, ""}, {1, nan, ""}, {float32(math.Inf(1)), .5, ""},
	} {
		m := alarm.Message{Seq: uint64(i + 1), Outs: uint64(i + 1), Stored: time.Unix(int64(i), 0), Labels: []string{"a"}, Predictions: []codec.Prediction{
			{Stream: "s", Time: codec.NoTime, Answer: outcome.Answer{Novelty: c.novelty, NoveltyP: c.p}},
		}}
		if _, err := f.JudgeMessage(&m); err != nil {
			t.Fatal(err)
		}
		changed, _ := f.TakeChanges(10)
		got, err := json.Marshal(changed)
		if err != nil || len(changed) != 1 || !strings.Contains(string(got), c.want) || c.want == "" && strings.Contains(string(got), "novelty") {
			t.Errorf("novelty %v, p %v: %s, %v; want %q", c.novelty, c.p, got, err, c.want)
		}
	}
}

// A server whose clock is set back clears an alarm as before: the time of hold is over if the
// clocks of the two predictions differ by that time.
func TestClockSetBack(t *testing.T) {
	for _, c := range []struct {
		hold, back time.Duration
		clears     bool
	}{{0, time.Hour, true}, {time.Minute, time.Hour, true}, {time.Minute, time.Second, false}} {
		f := newFold(t, []alarmtest.Rule{{Name: "a", Classes: []string{"bad"}, K: 1, N: 1, ClearAfter: 1, Hold: c.hold}})
		raised := time.Unix(1_700_000_000, 0)
		m := alarm.Message{Seq: 1, Outs: 1, Stored: raised, Labels: []string{"ok", "bad"}, Predictions: []codec.Prediction{{Stream: "s", Answer: outcome.Answer{Class: 1}}}}
		if events, err := f.JudgeMessage(&m); err != nil || len(events) != 1 {
			t.Fatalf("%v, %v", events, err)
		}
		m = alarm.Message{Seq: 2, Outs: 2, Stored: raised.Add(-c.back), Labels: m.Labels, Predictions: []codec.Prediction{{Stream: "s", Seq: 1}}}
		if events, err := f.JudgeMessage(&m); err != nil || len(events) == 1 != c.clears {
			t.Errorf("%+v: %v, %v", c, events, err)
		}
	}
}
