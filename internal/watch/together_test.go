package watch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// togetherServers are the servers under test: with one copy of the log, and with three.
var togetherServers = map[string]func(t *testing.T) (urls string, copies int){
	"one": func(t *testing.T) (string, int) {
		return pipelinetest.Server(t, natsserver.Options{Host: "127.0.0.1", Port: natsserver.RandomPort}).URL(), 1
	},
	"three": func(t *testing.T) (string, int) {
		if testing.Short() {
			t.Skip("NOT CHECKED: three servers take long under the race detector; runs without -short")
		}
		return strings.Join(pipelinetest.Trio(t), ","), 3
	},
}

// eachServers runs a test with an alarm log on each kind of server; begin starts a process.
func eachServers(t *testing.T, test func(t *testing.T, begin func(name string) *writer)) {
	for name, servers := range togetherServers {
		t.Run(name, func(t *testing.T) {
			url, copies := servers(t)
			connect := func() (*nats.Conn, jetstream.JetStream) {
				var nc *nats.Conn
				for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
					var err error
					if nc, err = natsclient.Connect(t.Context(), natsclient.Options{URL: url, Log: pipelinetest.Log(t)}); err == nil {
						err = natsclient.AwaitJetStream(t.Context(), nc)
					}
					if err == nil {
						break
					}
					if time.Now().After(end) {
						t.Fatal(err)
					}
				}
				t.Cleanup(nc.Close)
				return nc, pipelinetest.JetStream(t, nc)
			}
			_, js := connect()
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}, Replicas: copies}); err != nil {
				t.Fatal(err)
			}
			if err := EnsureStreams(t.Context(), js, "job", 0); err != nil {
				t.Fatal(err)
			}
			test(t, func(name string) *writer {
				nc, js := connect()
				return newWriterOn(t, nc, js, name)
			})
		})
	}
}

// someEvents returns n events from a number on.
func someEvents(from uint64, n int) (all []alarm.Logged) {
	for i := range n {
		number := from + uint64(i)
		all = append(all, alarm.Logged{Event: alarm.Event{
			Number: number, Kind: alarm.Raised, ID: fmt.Sprint("log-", number), Alarm: number, Rule: "worn", Key: fmt.Sprint("m", number%7), Time: time.Unix(int64(number), 0).UTC(), Position: number,
		}, Judged: []alarm.Place{{Partition: 1, Number: number}}})
	}
	return all
}

// eventNumbers returns the numbers of the log's events, in log order.
func (w *writer) eventNumbers() (all []uint64) {
	w.t.Helper()
	if err := ReadEvents(w.t.Context(), w.book.js, "job", time.Unix(1, 0), false, func(e alarm.Event) error {
		all = append(all, e.Number)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// requireEvents fails unless the log has the events 1 to n, each once and in order, and the book
// has the last message number.
func (w *writer) requireEvents(n int) {
	w.t.Helper()
	all := w.eventNumbers()
	for end := time.Now().Add(time.Minute); len(all) < n && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all = w.eventNumbers() // the reading server may not be the storing server
	}
	for i, number := range all {
		if number != uint64(i+1) {
			w.t.Fatalf("event %d is in place %d of the log: %v", number, i+1, all)
		}
	}
	if len(all) != n {
		w.t.Fatalf("the log has %d events, want %d", len(all), n)
	}
	info, err := w.book.stream.Info(w.t.Context())
	if err != nil || info.State.LastSeq != w.book.last {
		w.t.Fatalf("the log's last message is %d, the book's %d: %v", info.State.LastSeq, w.book.last, err)
	}
}

// TestEventsTogether: many events are stored in few batches, in order, with their contents.
func TestEventsTogether(t *testing.T) {
	eachServers(t, func(t *testing.T, begin func(string) *writer) {
		w := begin("first")
		if err := w.book.publishEvents(t.Context(), someEvents(1, 600)); err != nil {
			t.Fatal(err)
		}
		w.requireEvents(600)
		if w.book.batches != 3 || w.book.inbox == nil {
			t.Errorf("%d batches, want 3: %+v", w.book.batches, w.book.inbox)
		}
		tail, err := w.book.readTail(t.Context(), w.book.last-1)
		if err != nil || len(tail) != 2 || tail[1].Event.Number != 600 || len(tail[1].Judged) != 1 || tail[1].Judged[0].Number != 600 {
			t.Errorf("the log ends with %+v, %v", tail, err)
		}
		if err := w.book.publishEvents(t.Context(), someEvents(601, 1)); err != nil {
			t.Fatal(err)
		}
		if w.requireEvents(601); w.book.batches != 3 {
			t.Error("a single event was published as a batch")
		}
		for _, late := range []*nats.Msg{{Subject: w.book.inbox.prefix + "before.1.fail.1.0.$FI"}, {Subject: w.book.inbox.prefix + w.book.batchID() + ".1.fail.1.0.$FI"}} {
			w.book.inbox.answers <- late
		}
		all := someEvents(602, 10)
		if done, err := w.book.publishBatch(t.Context(), all); !done || err != nil {
			t.Errorf("what was answered before ends a batch: %v, %v", done, err)
		}
		w.requireEvents(611)
	})
}

// TestEventsAfterLostReply: after a lost reply to a batch, each event is stored once.
func TestEventsAfterLostReply(t *testing.T) {
	eachServers(t, func(t *testing.T, begin func(string) *writer) {
		n := 0
		for _, there := range []int{0, 1, 3, 10} {
			w := begin(fmt.Sprint("after ", there))
			all, before := someEvents(uint64(n+1), 10), w.book.last
			if err := w.book.publishEvents(t.Context(), all[:there]); err != nil {
				t.Fatal(err)
			}
			w.book.last = before
			if err := w.book.publishEvents(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			n += 10
			w.requireEvents(n)
		}
	})
}

// TestEventsFenced: a process that lost the alarms stores nothing more, including the rest of a
// pending batch: the server stores its first five messages, then another process claims the log,
// and then five more messages arrive.
func TestEventsFenced(t *testing.T) {
	eachServers(t, func(t *testing.T, begin func(string) *writer) {
		first := begin("first")
		all := someEvents(1, 10)
		first.book.batches++
		send := func(i int) {
			m, err := first.book.batchMessage(all, i)
			if err == nil {
				err = first.book.js.Conn().PublishMsg(m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			send(i)
		}
		for end := time.Now().Add(time.Minute); len(first.eventNumbers()) < 5; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("five messages of a batch are not stored")
			}
		}
		second := begin("second")
		for i := 5; i < 10; i++ {
			send(i)
		}
		if err := first.book.publishEvents(t.Context(), all); !errors.Is(err, ErrFenced) {
			t.Errorf("the first process goes on: %v, want %v", err, ErrFenced)
		}
		second.requireEvents(5)
		if err := second.book.publishEvents(t.Context(), someEvents(6, 10)); err != nil {
			t.Fatal(err)
		}
		second.requireEvents(15)
	})
}

// TestEventsOneByOne: a log without batches, as on NATS servers before 2.14, is written one event
// at a time.
func TestEventsOneByOne(t *testing.T) {
	s := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, s)
	for name, subjects := range map[string]string{wire.OutputStream("job"): "job.out.*", wire.AlarmStream("job"): wire.AlarmSubjects("job")} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subjects}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := EnsureStreams(t.Context(), js, "job", 0); err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, s, "first")
	for i := range 2 { // in the second pass, the server refuses batches unexpectedly
		if err := w.book.publishEvents(t.Context(), someEvents(uint64(10*i+1), 10)); err != nil {
			t.Fatal(err)
		}
		w.requireEvents(10 * (i + 1))
		if w.book.inbox != nil {
			t.Error("batches are still tried")
		}
		var err error
		if w.book.inbox, err = newInbox(w.book.js.Conn(), mostTogether); err != nil {
			t.Fatal(err)
		}
	}
}
