package alarm_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
)

// loggedEvent returns an event as stored in the log.
func loggedEvent(t *testing.T, e alarm.Event) alarm.Logged {
	t.Helper()
	judged, by := e.JudgedPlaces()
	places, err := alarm.ParsePlaces(alarm.PlacesText(judged))
	if err != nil {
		t.Fatal(err)
	}
	return alarm.Logged{Event: e, Judged: places, By: by}
}

// replay returns the predictions of messages in new messages: the order within each partition
// stays, the order of partitions changes.
func replay(rng *rand.Rand, lost []alarm.Message, position uint64, now time.Time) (all []alarm.Message) {
	left, outs := map[int][]codec.Prediction{}, map[int]uint64{}
	for _, m := range lost {
		if _, known := outs[m.Partition]; !known {
			outs[m.Partition] = m.Outs - uint64(len(m.Predictions))
		}
		left[m.Partition] = append(left[m.Partition], m.Predictions...)
	}
	for len(left) > 0 {
		part := rng.IntN(3)
		n := min(len(left[part]), 1+rng.IntN(9))
		if n == 0 {
			delete(left, part)
			continue
		}
		position, now = position+1, now.Add(time.Duration(rng.Int64N(int64(time.Minute))))
		outs[part] += uint64(n)
		all = append(all, alarm.Message{Seq: position, Stored: now, Partition: part, Outs: outs[part], Labels: lost[0].Labels, Predictions: left[part][:n]})
		left[part] = left[part][n:]
	}
	return all
}

// summary returns an event's contents without place and time.
func summary(e alarm.Event) string {
	return fmt.Sprint(e.Kind, " ", e.Stream, " ", e.Class, " ", e.Probability, " ", e.Change)
}

// TestOutputBack: the output goes back in time to any message, with a state from any point before
// the end of the log, and the predictions return in new messages. The log then has the same events
// for each alarm as without the loss: raised and cleared alternately, by the same predictions.
func TestOutputBack(t *testing.T) {
	t.Parallel()
	events, fresh := 0, 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 12))
		rules := alarmtest.RandomRules(rng)
		timed := map[string]bool{} // rules that depend on the clock: the time is different now
		texts := map[string]string{}
		for i := range rules {
			rules[i].Silent = 0
			if rules[i].Classes == nil && rules[i].Flag == 0 && rules[i].Novel == 0 {
				rules[i].Classes = []string{"rub"}
			}
			rules[i].K = min(max(1, rules[i].K), rules[i].N)
			timed[rules[i].Name] = rules[i].Hold > 0 || rules[i].Quiet != ""
			texts[rules[i].Name] = rules[i].FormatRule()
		}
		parsed, err := alarm.ParseRules(texts)
		if err != nil {
			t.Fatal(err)
		}
		begin := func() *alarm.Fold {
			f := alarm.NewFold("log", 0)
			if _, err := f.ApplyFact(f.ChangeRules(parsed, "c", "anna", time.Unix(1, 0))); err != nil {
				t.Fatal(err)
			}
			return f
		}
		take := func(f *alarm.Fold, all []alarm.Message) (log []alarm.Logged) {
			for i := range all {
				got, err := f.JudgeMessage(&all[i])
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for _, e := range got {
					log = append(log, loggedEvent(t, e))
				}
			}
			return log
		}
		messages := alarmtest.RandomMessages(rng, 12, 120)
		whole := take(begin(), messages)
		logEnd := 40 + rng.IntN(60) // the process was killed after this message
		cut, saved := rng.IntN(logEnd), rng.IntN(logEnd)
		f := begin()
		log := take(f, messages[:saved])
		state, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		tail := take(f, messages[saved:logEnd])
		log = append(log, tail...)
		if f, err = alarm.DecodeFold(state); err != nil {
			t.Fatal(err)
		}
		position := uint64(0)
		if cut > 0 {
			position = messages[cut-1].Seq
		}
		split := 0
		if saved < cut {
			was := take(f, messages[saved:cut])
			split = len(was)
			for i := range was {
				if a, b := bytesOf(t, was[i].Event), bytesOf(t, tail[i].Event); a != b || was[i].By != tail[i].By {
					t.Fatalf("seed %d: event %s, want %s", seed, a, b)
				}
			}
		}
		if err := f.Resume(tail[split:], position); err != nil {
			t.Fatal(err)
		}
		remade := replay(rng, messages[cut:], position, messages[119].Stored.Add(time.Hour))
		middle := rng.IntN(len(remade))
		added := take(f, remade[:middle])
		if state, err = f.Encode(); err != nil {
			t.Fatal(err)
		}
		if f, err = alarm.DecodeFold(state); err != nil {
			t.Fatal(err)
		}
		added = append(added, take(f, remade[middle:])...)
		log = append(log, added...)
		events, fresh = events+len(log), fresh+len(added)
		per := func(all []alarm.Logged) map[string][]string {
			keys := map[string][]string{}
			for _, e := range all {
				keys[e.Event.Rule+" "+e.Event.Key] = append(keys[e.Event.Rule+" "+e.Event.Key], summary(e.Event))
			}
			return keys
		}
		got, want := per(log), per(whole)
		on := map[string]uint64{}
		for i := range log {
			e := &log[i].Event
			if e.Number != uint64(i)+2 {
				t.Fatalf("seed %d: event %d has number %d", seed, i+2, e.Number)
			}
			key := e.Rule + " " + e.Key
			if (e.Kind == alarm.Raised) != (on[key] == e.Replaces) || e.Kind == alarm.Cleared && e.Alarm != on[key] {
				t.Fatalf("seed %d: event %d, %s of alarm %d of %s, while %d is on", seed, e.Number, e.Kind, e.Alarm, key, on[key])
			}
			if on[key] = e.Number; e.Kind == alarm.Cleared {
				on[key] = 0
			}
			if !timed[e.Rule] && !slices.Equal(got[key], want[key]) {
				t.Fatalf("seed %d: cut behind %d, state of %d, log up to %d: %s has\n%q\nwant\n%q", seed, cut, saved, logEnd, key, got[key], want[key])
			}
		}
		for key := range want {
			if len(got[key]) == 0 && !timed[key[:len("rule-0")]] {
				t.Fatalf("seed %d: no events of %s", seed, key)
			}
		}
		if again, err := f.Encode(); err != nil || len(f.ActiveAlarms()) != len(slices.DeleteFunc(values(on), func(n uint64) bool { return n == 0 })) {
			t.Fatalf("seed %d: %d alarms are on, the log has %v; state of %d bytes, %v", seed, len(f.ActiveAlarms()), on, len(again), err)
		}
	}
	if events < 2000 || fresh < 500 {
		t.Errorf("only %d events, %d of them after the loss", events, fresh)
	}
}

func bytesOf(t *testing.T, e alarm.Event) string {
	t.Helper()
	b, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func values(m map[string]uint64) (all []uint64) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// FuzzPlaces: a header is refused, or its places encode to the same header.
func FuzzPlaces(f *testing.F) {
	f.Add("0:877 3:1201")
	f.Add("0:")
	f.Add("-1:3")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := alarm.ParsePlaces(text)
		if err != nil {
			return
		}
		if back, err := alarm.ParsePlaces(alarm.PlacesText(all)); err != nil || !slices.Equal(back, all) {
			t.Fatalf("%q gives %v, and that %v, %v", text, all, back, err)
		}
	})
}

// TestAcknowledgedBeforeItComesAgain: a process with an older state applies the same
// acknowledgement from the log when the alarm's predictions have not returned.
func TestAcknowledgedBeforeItComesAgain(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	by := alarm.Place{Number: 5}
	raised := alarm.Event{Number: 2, Kind: alarm.Raised, ID: "log-2", Alarm: 2, Rule: "rub", Key: "a", Stream: "a", Class: "rub", Position: 9}
	if err := f.Resume([]alarm.Logged{{Event: raised, Judged: []alarm.Place{by}, By: by}}, 0); err != nil {
		t.Fatal(err)
	}
	state, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		key    string
		number uint64
	}{{"b", 0}, {"a", 7}} { // the log has no trace of refused requests
		if _, err := f.Acknowledge("rub", refused.key, refused.number, "me", time.Unix(1, 0)); !errors.Is(err, alarm.ErrNoAlarm) {
			t.Errorf("%s %d: %v", refused.key, refused.number, err)
		}
	}
	if still, err := f.Encode(); err != nil || !bytes.Equal(still, state) {
		t.Errorf("an acknowledgement that was refused has changed the state (%v)", err)
	}
	e, err := f.Acknowledge("rub", "a", 0, "me", time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	next, err := alarm.DecodeFold(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []*alarm.Fold{f, next} {
		if _, err := one.ApplyFact(e); err != nil {
			t.Fatal(err)
		}
		if on := one.ActiveAlarms(); len(on) != 1 || !on[0].Acknowledged {
			t.Errorf("on: %+v", on)
		}
	}
}
