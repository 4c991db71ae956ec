package alarm_test

import (
	"errors"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// known makes predictions of a stream, one a minute. The letter of a prediction is n (normal) or f (novel); capital
// letters of labels are faults, - is no label.
func known(stream, predicted, labels string) (all []alarm.Known) {
	for i := range predicted {
		k := alarm.Known{Stored: time.Unix(int64(60*i), 0).UTC()}
		k.Prediction = codec.Prediction{Stream: stream, Time: codec.NoTime, Answer: outcome.Answer{NoveltyP: .5}}
		if predicted[i] == 'f' {
			k.Class, k.NoveltyP = 1, .01
		}
		switch labels[i] {
		case 'n':
			k.Label = "normal"
		case 'F':
			k.Label, k.Strange = "novel", true
		}
		all = append(all, k)
	}
	return all
}

func parsed(t *testing.T, texts map[string]string) alarm.Rules {
	t.Helper()
	rules, err := alarm.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// Alarms are true in faults and in unlabeled predictions next to a fault; a fault is found while an alarm is active.
func TestRehearse(t *testing.T) {
	rules := parsed(t, map[string]string{"class": "class novel", "flag": "flag flat", "novel": "novel 0.05, 2 of 2, clear after 2"})
	// a: an alarm without a fault, one between healthy parts, one just before a fault; the last fault is missed
	a := known("a", "nfnnfnnffffnnnnnnn", "nnn---n--FFFnFFnnn")
	b := known("b", "nnnffffff", "nnnnnFFFn") // raised before the fault and active in it: false, but not missed
	r, err := alarm.Rehearse(rules, []string{"normal", "novel"}, append(a, b...))
	if err != nil {
		t.Fatal(err)
	}
	class, flag, novel := r.Rules[0], r.Rules[1], r.Rules[2]
	if class.Alarms != 4 || class.True != 1 || class.False != 2 || class.Unlabeled != 1 || class.Faults != 3 || class.Found != 2 || class.Missed != 1 {
		t.Errorf("class: %+v", class)
	}
	// a: 3+2 faulty, 2 active; b: 3 faulty, 3 active. Healthy: a 3+1+1+3, b 5+1; false: a 1, b 2+1
	if w := class.Rows; w.Faulty != 8 || w.Active != 5 || w.Healthy != 14 || w.FalseActive != 4 || *w.F1 != 10./17 || *w.FalseShare != 4./14 || *w.MissedShare != 3./8 {
		t.Errorf("predictions: %+v, F1 %v", w, *w.F1)
	}
	if novel.Alarms != 2 || novel.True != 1 || novel.False != 1 || novel.Unlabeled != 0 || novel.Found != 2 {
		t.Errorf("novel: %+v", novel)
	}
	if flag.Alarms != 0 || flag.Faults != 0 || flag.Rows.F1 != nil {
		t.Errorf("flag: %+v", flag)
	}
	if class.PerWeek != nil {
		t.Error("alarms a week without a time")
	}
	r.SetWeeks(2)
	if *r.Rules[0].PerWeek != 2 || *r.Rules[0].FalsePerWeek != 1 {
		t.Errorf("a week: %v, %v false", *r.Rules[0].PerWeek, *r.Rules[0].FalsePerWeek)
	}
	if _, err := alarm.Rehearse(parsed(t, map[string]string{"s": "silent 1m"}), nil, nil); !errors.Is(err, alarm.ErrSilent) {
		t.Errorf("a silent rule: %v", err)
	}
}

// The events are those of the live fold, which receives predictions in larger messages.
func TestRehearseAsLive(t *testing.T) {
	texts := map[string]string{"novel": "novel 0.05, 2 of 3, clear after 2, hold 90s", "class": "class novel, by \"()\""}
	rules := parsed(t, texts)
	all := known("a", "nfnffnnnffnnnnfffnnf", "--------------------")
	r, err := alarm.Rehearse(rules, []string{"normal", "novel"}, all)
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("live", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "", time.Time{})); err != nil {
		t.Fatal(err)
	}
	var live []alarm.Event
	for i := range all { // each with the newest two predictions, of which one was judged
		m := alarm.Message{Seq: uint64(i + 1), Stored: all[i].Stored, Outs: uint64(i + 1), Labels: []string{"normal", "novel"}}
		for _, k := range all[max(0, i-1) : i+1] {
			m.Predictions = append(m.Predictions, k.Prediction)
		}
		events, err := f.JudgeMessage(&m)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, events...)
	}
	if len(live) != len(r.Events) || len(live) < 8 {
		t.Fatalf("%d events live, %d rehearsed", len(live), len(r.Events))
	}
	for i, e := range live {
		if o := r.Events[i]; e.Kind != o.Kind || e.Rule != o.Rule || e.Key != o.Key || e.Number != o.Number || e.Alarm != o.Alarm || !e.Time.Equal(o.Time) || !e.Since.Equal(o.Since) {
			t.Errorf("live %+v\nrehearsed %+v", e, o)
		}
	}
}
