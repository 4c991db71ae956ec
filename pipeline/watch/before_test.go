package watch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/watch"
)

// A log whose last events a program from before has written, which said nothing of
// novelty, continues: they are the same events.
func TestEventsFromBefore(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"new": "novel 0.01"})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{}, 4)
	o := watch.Options{Rules: rules, Save: time.Hour, Begun: func(alarm.Rules) { begun <- struct{}{} }}
	novel := func(outs uint64, p float32) {
		r.send(alarm.Message{Outs: outs, Predictions: []codec.Prediction{{Stream: "s", Time: codec.NoTime, Novelty: 3, NoveltyP: p}}})
	}
	events := func(n int) {
		t.Helper()
		r.await(fmt.Sprint(n, " events"), func() bool { return len(r.events()) == n })
	}
	p := r.start(o)
	<-begun
	novel(1, .5)
	r.await("the state to be stored", func() bool { return r.position() == r.sent[0].Seq })
	novel(2, .001)
	events(2) // the rules, and the alarm
	p.kill()  // the log has an event that the state has not
	<-p.done

	// The log is written again, without what is new.
	s, err := r.js.Stream(t.Context(), "JOB-ALARMS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []*nats.Msg
	said := 0
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // of an earlier state
			all = append(all, nil)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if bytes.Contains(m.Data, []byte(`"novelty_p"`)) {
			if err := json.Unmarshal(m.Data, &fields); err != nil {
				t.Fatal(err)
			}
			delete(fields, "novelty")
			delete(fields, "novelty_p")
			if m.Data, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
			said++
		}
		m.Header.Del(jetstream.ExpectedLastSeqHeader)
		all = append(all, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	if said != 1 {
		t.Fatalf("%d events say something of novelty, want 1", said)
	}
	if err := r.js.DeleteStream(t.Context(), "JOB-ALARMS"); err != nil {
		t.Fatal(err)
	}
	// In memory: the server may still be removing the files of the one before.
	info.Config.Storage = jetstream.MemoryStorage
	if s, err = r.js.CreateStream(t.Context(), info.Config); err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		gone := m == nil
		if gone {
			m = &nats.Msg{Subject: "job.alarm.state"}
		}
		ack, err := r.js.PublishMsg(t.Context(), m)
		if err != nil || ack.Sequence != uint64(i+1) {
			t.Fatalf("%+v: %v", ack, err)
		}
		if gone {
			if err := s.DeleteMsg(t.Context(), ack.Sequence); err != nil {
				t.Fatal(err)
			}
		}
	}

	p = r.start(o)
	<-begun
	novel(3, .5)
	events(3)
	r.end(p)
	if log := r.events(); log[1].NoveltyP != 0 || log[2].Kind != alarm.Cleared || log[2].NoveltyP != .5 {
		t.Errorf("the log has %+v", log)
	}
}
