package alarmtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Rule is a rule in plain numbers, for the oracle. The oracle shares no code with the
// fold: for each prediction, it evaluates all earlier predictions.
type Rule struct {
	Name       string
	Silent     time.Duration
	Flag       outcome.Flag // 0 = class
	Novel      float32      // p-value; 0 = class or flag
	Op         string       // condition on a predicted number: >, >=, < or <=; "" = another kind of condition
	Bound, Off float32      // limits of the predicted number: the condition is on at Bound and off at Off
	Classes    []string
	At, Below  float32
	K, N       int
	ClearAfter int
	Hold       time.Duration
	Quiet      string // "22:00-06:00"
	Prefix     string // of stream names
	Group      bool   // by the name up to the first dot
	Final      bool
}

// FormatRule returns the rule in the syntax of the configuration.
func (w *Rule) FormatRule() string {
	var s string
	switch {
	case w.Silent > 0:
		s = "silent " + w.Silent.String()
	case w.Novel > 0:
		s = fmt.Sprintf("novel %g", w.Novel)
	case w.Op != "":
		s = fmt.Sprintf("value %s %g", w.Op, w.Bound)
		if w.Off < w.Bound {
			s += fmt.Sprintf(", clear below %g", w.Off)
		} else if w.Off > w.Bound {
			s += fmt.Sprintf(", clear above %g", w.Off)
		}
	case w.Flag > 0:
		s = "flag " + w.Flag.String()
	default:
		s = "class " + strings.Join(w.Classes, " | ")
		if w.At > 0 {
			s += fmt.Sprintf(" >= %g", w.At)
		}
		if w.Below > 0 {
			s += fmt.Sprintf(", clear below %g", w.Below)
		}
	}
	if w.Silent == 0 {
		s += fmt.Sprintf(", %d of %d, clear after %d", w.K, w.N, w.ClearAfter)
	}
	if w.Hold > 0 {
		s += ", hold " + w.Hold.String()
	}
	if w.Quiet != "" {
		s += ", quiet " + w.Quiet
	}
	if w.Prefix != "" {
		s += ", streams " + w.Prefix + ".>"
	}
	if w.Group {
		s += `, by "^([^.]*)[.]"`
	}
	if w.Final {
		s += ", final"
	}
	return s
}

// Entry is an entry of the past: a prediction, or a tick of the clock.
type Entry struct {
	Position uint64
	Stored   time.Time
	Look     bool
	P        codec.Prediction
	Class    string
}

func (w *Rule) keyOf(stream string) (string, bool) {
	head, _, dotted := strings.Cut(stream, ".")
	if w.Prefix != "" && (head != w.Prefix || !dotted) || w.Group && !dotted {
		return "", false
	}
	if w.Group {
		return head, true
	}
	return stream, true
}

func (w *Rule) isOn(h *Entry) bool {
	if w.Novel > 0 {
		return 0 < h.P.NoveltyP && h.P.NoveltyP <= w.Novel
	}
	if w.Op != "" {
		x := h.P.Number.Value
		return h.P.Number.Known && (x > w.Bound && w.Op[0] == '>' || x < w.Bound && w.Op[0] == '<' || x == w.Bound && len(w.Op) == 2)
	}
	if w.Flag > 0 {
		return h.P.Flags&w.Flag > 0
	}
	return slices.Contains(w.Classes, h.Class) && h.P.Probability >= w.At
}

func (w *Rule) isOff(h *Entry) bool {
	if w.Novel > 0 {
		return h.P.NoveltyP > w.Novel
	}
	if w.Op != "" && w.Off != w.Bound {
		x := h.P.Number.Value
		return h.P.Number.Known && (x < w.Off) == (w.Off < w.Bound) && x != w.Off
	}
	if w.Op != "" {
		return h.P.Number.Known && !w.isOn(h)
	}
	if w.Flag > 0 {
		return !w.isOn(h)
	}
	bound := w.At
	if w.Below > 0 {
		bound = w.Below
	}
	return !slices.Contains(w.Classes, h.Class) || h.P.Probability > 0 && h.P.Probability < bound
}

func (w *Rule) isQuiet(t time.Time) bool {
	if w.Quiet == "" {
		return false
	}
	now, from, to := t.UTC().Format("15:04"), w.Quiet[:5], w.Quiet[6:]
	if from < to {
		return from <= now && now < to
	}
	return now >= from || now < to
}

// Event is an event that the oracle expects.
type Event struct {
	Kind, Rule, Key string
	Position        uint64
	Time, Since     time.Time
	Alarm           int // number of the event that raised the alarm
	Place           int // index of the deciding entry in the past
}

// ExpectEvents returns the events that the rules must produce for a past, in the order of
// the log.
func ExpectEvents(rules []Rule, past []Entry) (events []Event) {
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	places := map[[2]string][]int{} // indexes of the predictions of each rule and key
	for i := range past {
		for r := range rules {
			w := &rules[r]
			if past[i].Look {
				if w.Silent > 0 {
					events = append(events, w.findSilences(past[:i+1], events)...)
				}
				continue
			}
			key, applies := w.keyOf(past[i].P.Stream)
			if !applies || w.Final && past[i].P.Flags&outcome.FlagEarly > 0 {
				continue
			}
			id := [2]string{w.Name, key}
			places[id] = append(places[id], i)
			if e, ok := w.judgePrediction(key, past[:i+1], places[id], events); ok {
				events = append(events, e)
			}
		}
	}
	return events
}

// lastEvent returns the last event of an alarm and its number; nil if the alarm has no
// event.
func (w *Rule) lastEvent(key string, events []Event) (last *Event, number int) {
	for i := range events {
		if events[i].Rule == w.Name && events[i].Key == key {
			last, number = &events[i], i+1
		}
	}
	return last, number
}

// clearSilence reports whether the prediction of e clears the alarm of its silence.
func (w *Rule) clearSilence(e Event, last *Event, number int) (Event, bool) {
	if last == nil || last.Kind == alarm.Cleared || e.Time.Sub(last.Time).Abs() < w.Hold {
		return e, false
	}
	e.Kind, e.Since, e.Alarm = alarm.Cleared, last.Since, number
	return e, true
}

// firstOn returns the index of the last prediction that is on and has no other on
// prediction among the N-1 entries before; -1 if there is none.
func (w *Rule) firstOn(entries []Entry) int {
	first := -1
	for i := range entries {
		if !w.isOn(&entries[i]) {
			continue
		}
		isolated := true
		for j := max(0, i-w.N+1); j < i; j++ {
			isolated = isolated && !w.isOn(&entries[j])
		}
		if isolated {
			first = i
		}
	}
	return first
}

// isWorse reports whether prediction now replaces the active alarm of prediction before.
func (w *Rule) isWorse(before, now *Entry) bool {
	return w.Novel > 0 && before.P.Novelty > 0 && w.isOn(now) && now.P.Novelty >= 3*before.P.Novelty && !w.isQuiet(now.Stored)
}

// entriesAfter returns the predictions of an alarm after its last event; nil: all.
func entriesAfter(last *Event, past []Entry, places []int) (entries []Entry) {
	for _, i := range places {
		if last == nil || i > last.Place {
			entries = append(entries, past[i])
		}
	}
	return entries
}

// judgePrediction evaluates the last entry of the past, a prediction of the key.
func (w *Rule) judgePrediction(key string, past []Entry, places []int, events []Event) (Event, bool) {
	last, number := w.lastEvent(key, events)
	now := past[len(past)-1]
	e := Event{Rule: w.Name, Key: key, Position: now.Position, Time: now.Stored, Place: len(past) - 1}
	if w.Silent > 0 {
		return w.clearSilence(e, last, number)
	}
	entries := entriesAfter(last, past, places)
	if last != nil && last.Kind == alarm.Raised {
		if w.isWorse(&past[last.Place], &now) {
			e.Kind, e.Since, e.Alarm = alarm.Raised, now.Stored, len(events)+1
			return e, true
		}
		run := 0
		for i := len(entries) - 1; i >= 0 && w.isOff(&entries[i]); i-- {
			run++
		}
		e.Kind, e.Since, e.Alarm = alarm.Cleared, last.Since, number
		return e, run >= w.ClearAfter && now.Stored.Sub(last.Time).Abs() >= w.Hold
	}
	count := 0
	for i := range entries {
		if i >= len(entries)-w.N && w.isOn(&entries[i]) {
			count++
		}
	}
	if count < w.K || w.isQuiet(now.Stored) {
		return e, false
	}
	e.Kind, e.Since, e.Alarm = alarm.Raised, entries[w.firstOn(entries)].Stored, len(events)+1
	return e, true
}

// findSilences returns the silences that the clock's tick reveals.
func (w *Rule) findSilences(past []Entry, events []Event) (all []Event) {
	now := past[len(past)-1]
	lasts := map[string]time.Time{}
	for i := range past {
		if key, ok := w.keyOf(past[i].P.Stream); !past[i].Look && ok && !(w.Final && past[i].P.Flags&outcome.FlagEarly > 0) {
			lasts[key] = past[i].Stored
		}
	}
	var keys []string
	for key, at := range lasts {
		last, _ := w.lastEvent(key, events)
		if now.Stored.Sub(at) >= w.Silent && !w.isQuiet(now.Stored) && (last == nil || last.Kind == alarm.Cleared) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		all = append(all, Event{Kind: alarm.Raised, Rule: w.Name, Key: key, Position: now.Position, Time: now.Stored, Since: lasts[key], Alarm: len(events) + len(all) + 1})
	}
	return all
}

// Shift renumbers events from 1, in a log in which the rules are event 1.
func Shift(events []alarm.Event) []alarm.Event {
	for i := range events {
		events[i].Number--
		events[i].Alarm--
	}
	return events
}

// WantEvents compares events with the expected events.
func WantEvents(t testing.TB, got []alarm.Event, want []Event) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("%d events, want %d", len(got), len(want))
		}
		want[i].Place = 0
		g := Event{got[i].Kind, got[i].Rule, got[i].Key, got[i].Position, got[i].Time, got[i].Since, int(got[i].Alarm), 0}
		if g != want[i] || got[i].Number != uint64(i)+1 {
			t.Fatalf("event %d is number %d:\n%+v\nwant\n%+v", i+1, got[i].Number, g, want[i])
		}
	}
}
