//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

// compareOutput reads the output until every expected prediction is there, or no more
// arrive. Then it stops the workers and looks for superfluous predictions.
func (r *run) compareOutput(ctx context.Context, js jetstream.JetStream) error {
	r.audit = newAudit(r.truth.predictions)
	r.audit.may = r.scenario.May
	if r.next != nil {
		r.audit.change.after = r.next.predictions // both networks predict at the same samples
	}
	if names := r.truth.readouts.names; len(names) > 0 {
		r.audit.first = names[0]
	}
	read, stopped, err := r.awaitPredictions(ctx, js)
	if err != nil {
		return err
	}
	time.Sleep(settleTime)
	if unclean := r.fleet.stopAll(); len(unclean) > 0 && r.scenario.control() == "" && len(stopped) == 0 {
		r.result.addFailure("at the end, workers did not stop cleanly: %v", unclean)
	}
	if _, err := readOn(ctx, js, outputStream, read, r.scenario.mayLoseOutput(), r.audit.checkMessage); err != nil {
		return err
	}
	r.audit.countMissing(r.partitionOfStream, stopped)
	for _, p := range slices.Sorted(maps.Keys(stopped)) {
		r.result.Stopped = append(r.result.Stopped, fmt.Sprintf("%d: %s", p, stopped[p]))
	}
	return r.deadLetters(ctx, js)
}

// awaitPredictions reads the output until every expected prediction is there, or no more
// arrive. read is the number of the last message read; stopped are the stopped
// partitions.
func (r *run) awaitPredictions(ctx context.Context, js jetstream.JetStream) (read uint64, stopped stops, err error) {
	holes := r.scenario.mayLoseOutput()
	asked := time.Now()
	for last := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		before := r.audit.total
		if holes && time.Since(last) > askAgainAfter && time.Since(asked) > askAgainAfter {
			// Servers that restart one by one after a power loss may have lost more than
			// reported.
			asked = time.Now()
			if err := r.sendAgain(ctx, js); err != nil {
				return read, stopped, err
			}
		}
		if read, err = readOn(ctx, js, outputStream, read, holes, r.audit.checkMessage); err != nil {
			return read, stopped, err
		}
		if r.scenario.May.Stop {
			if stopped, err = r.fleet.findStopped(r.dir, r.partitions()); err != nil {
				return read, stopped, err
			}
		}
		if r.audit.countOpen(r.partitionOfStream, stopped) == 0 {
			break
		}
		if r.audit.total > before {
			last = time.Now()
		} else if quiet := time.Since(last); quiet > noProgress || r.scenario.control() != "" && quiet > controlPatience {
			break // missing predictions count as lost
		}
	}
	return read, stopped, nil
}

// deadLetters expects one dead letter for each damaged message, and no other dead
// letters. Several copies are no error: a dead letter is published before its commit.
func (r *run) deadLetters(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.May.isLenient() {
		return nil // neither damaged nor lost messages are planned
	}
	missing := maps.Clone(r.truth.damaged)
	maps.DeleteFunc(missing, func(_ uint64, required bool) bool { return !required })
	_, err := readOn(ctx, js, deadStream, 0, false, func(s stored) error {
		in, err := s.parseNumber(headerInSeq)
		if _, known := r.truth.damaged[in]; err == nil && !known {
			r.audit.addFault("input message %d is a dead letter (%s), and was good", in, s.header.Get("Eusn-Error"))
		}
		delete(missing, in)
		return err
	})
	for _, in := range slices.Sorted(maps.Keys(missing)) {
		r.audit.addFault("input message %d is damaged, and no dead letter", in)
	}
	return err
}

// alarmEvent is an event of the log of alarms.
type alarmEvent struct {
	Number   uint64
	Event    string
	Key      string
	Position uint64 // of the deciding prediction, in the output
}

// expectedAlarms returns the alarms of alarmRule for the output, in order.
func (r *run) expectedAlarms(ctx context.Context, js jetstream.JetStream) (all []alarmEvent, err error) {
	type series struct {
		last []bool // the last three predictions: is the class "class 1"
		on   bool
		not  int // consecutive predictions of other classes
	}
	streams := map[string]*series{}
	_, err = readOn(ctx, js, outputStream, 0, false, func(s stored) error {
		if s.partition < 0 {
			return nil
		}
		_, predictions, err := codec.DecodePredictions(s.data)
		if err != nil {
			return err
		}
		for _, p := range predictions {
			t := streams[p.Stream]
			if t == nil {
				t = &series{}
				streams[p.Stream] = t
			}
			is, count := p.Class == 1, 0
			t.last = append(t.last, is)
			t.last = t.last[max(0, len(t.last)-3):]
			for _, l := range t.last {
				if l {
					count++
				}
			}
			switch {
			case !t.on && is && count >= 2:
				t.on, t.not = true, 0
				all = append(all, alarmEvent{uint64(len(all) + 1), "raised", p.Stream, s.seq})
			case t.on && is:
				t.not = 0
			case t.on:
				if t.not++; t.not == 2 {
					t.on, t.last = false, nil
					all = append(all, alarmEvent{uint64(len(all) + 1), "cleared", p.Stream, s.seq})
				}
			}
		}
		return nil
	})
	return all, err
}

// alarmLog reads the events of the log. Events of a batch are in one message.
func alarmLog(ctx context.Context, js jetstream.JetStream) (all []alarmEvent, err error) {
	s, err := js.Stream(ctx, alarmStream)
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(job+".alarm.one.>"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		seq = m.Sequence
		for d := json.NewDecoder(bytes.NewReader(m.Data)); ; {
			var e alarmEvent
			if err := d.Decode(&e); err != nil {
				break
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// compareAlarms expects the events of expectedAlarms, each once and in order.
func (r *run) compareAlarms(ctx context.Context, js jetstream.JetStream) error {
	got, want, err := r.awaitAlarms(ctx, js)
	if err != nil {
		return err
	}
	if how := r.companions.alarms.stop(workerStop); how != endedWell {
		r.result.addFailure("alarms run ended with %s", how)
	}
	if len(want) == 0 {
		r.result.addFailure("no alarm is called for: %s", shownNothing)
	}
	r.judgeAlarms(got, want)
	return nil
}

// awaitAlarms waits until the log has as many events as the output calls for.
func (r *run) awaitAlarms(ctx context.Context, js jetstream.JetStream) (got, want []alarmEvent, err error) {
	if want, err = r.expectedAlarms(ctx, js); err != nil {
		return nil, nil, err
	}
	for begin := time.Now(); time.Since(begin) < noProgress; time.Sleep(200 * time.Millisecond) {
		if got, err = alarmLog(ctx, js); err != nil || len(got) >= len(want) {
			break
		}
	}
	return got, want, err
}

// judgeAlarms compares the events of the log with the expected events. Streams are
// independent: each stream's events are compared separately.
func (r *run) judgeAlarms(got, want []alarmEvent) {
	byKey := func(list []alarmEvent) map[string]string {
		all := map[string]string{}
		for _, e := range list {
			all[e.Key] += fmt.Sprintf("%s at %d, ", e.Event, e.Position)
		}
		return all
	}
	if g, w := byKey(got), byKey(want); !maps.Equal(g, w) {
		for _, key := range slices.Sorted(maps.Keys(w)) {
			if g[key] != w[key] {
				r.result.addFailure("%d alarm events, want %d; those of %s are %.300s want %.300s", len(got), len(want), key, strings.TrimSuffix(g[key], ", "), strings.TrimSuffix(w[key], ", "))
				break
			}
		}
	}
	for i := 1; i < len(got); i++ {
		if got[i].Number <= got[i-1].Number {
			r.result.addFailure("alarm event %d follows %d", got[i].Number, got[i-1].Number)
			break
		}
	}
}
