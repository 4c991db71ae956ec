package watch_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/alarmtest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// rig is a server with a job's output that a test writes.
type rig struct {
	t      *testing.T
	dir    string
	server *natsserver.Server
	js     jetstream.JetStream
	enc    *codec.PredictionEncoder
	stored map[uint64]time.Time // messages of the output
	sent   []alarm.Message
	wait   time.Duration // of clients between two attempts to connect, where it is not 0
}

func newRig(t *testing.T, keep int64) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), stored: map[uint64]time.Time{}}
	r.serve()
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}, MaxMsgsPerSubject: keep})
	if err != nil {
		t.Fatal(err)
	}
	if r.enc, err = codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"ok", "imbalance", "rub"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// serve starts the server.
func (r *rig) serve() {
	r.t.Helper()
	r.server = pipelinetest.Server(r.t, natsserver.Options{Dir: r.dir})
	_, r.js = pipelinetest.Connect(r.t, r.server)
}

// send publishes a message of the output, as a worker does.
func (r *rig) send(m alarm.Message) {
	r.t.Helper()
	body, err := r.enc.Encode(m.Predictions)
	if err != nil {
		r.t.Fatal(err)
	}
	ack, err := r.js.PublishMsg(r.t.Context(), &nats.Msg{Subject: wire.OutputSubject("job", m.Partition), Data: body, Header: nats.Header{
		wire.HeaderKind: {wire.KindCommit}, wire.HeaderInSeq: {"1"}, wire.HeaderOuts: {strconv.FormatUint(m.Outs, 10)},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	m.Seq = ack.Sequence
	r.sent = append(r.sent, m)
}

// process is watch.Run in a goroutine, with a connection of its own.
type process struct {
	nc   *nats.Conn
	stop context.CancelFunc
	done chan error
}

func (r *rig) start(o watch.Options) *process {
	r.t.Helper()
	nc, err := r.server.Connect("alarms", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	nc.Opts.ReconnectWait = cmp.Or(r.wait, nc.Opts.ReconnectWait)
	ctx, cancel := context.WithCancel(r.t.Context())
	p := &process{nc, cancel, make(chan error, 1)}
	o.Job = "job"
	if o.Log == nil {
		o.Log = pipelinetest.Log(r.t)
	}
	go func() { p.done <- watch.Run(ctx, nc, o) }()
	r.t.Cleanup(func() { p.kill() })
	return p
}

// kill ends the process without a word to the server.
func (p *process) kill() {
	p.nc.Close()
	p.stop()
}

// end stops the process in order.
func (r *rig) end(p *process) {
	r.t.Helper()
	p.stop()
	if err := <-p.done; err != nil {
		r.t.Error(err)
	}
	p.nc.Close()
}

func rulesOf(t *testing.T, rules []alarmtest.Rule) alarm.Rules {
	t.Helper()
	texts := map[string]string{}
	for _, w := range rules {
		texts[w.Name] = w.FormatRule()
	}
	parsed, err := alarm.ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// events is the alarm log, and the rules events in it.
func (r *rig) events() (all []alarm.Event) {
	r.t.Helper()
	if err := watch.Events(r.t.Context(), r.js, "job", time.Unix(1, 0), false, func(e alarm.Event) error {
		all = append(all, e)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// past is what the output has, as an oracle wants it.
func (r *rig) past() (all []alarmtest.Entry) {
	r.t.Helper()
	out, err := r.js.Stream(r.t.Context(), wire.OutputStream("job"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range r.sent {
		got, err := out.GetMsg(r.t.Context(), m.Seq)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, p := range m.Predictions {
			all = append(all, alarmtest.Entry{Position: m.Seq, Stored: got.Time.UTC(), P: p, Class: []string{"ok", "imbalance", "rub"}[p.Class]})
		}
	}
	return all
}

// quick makes rules whose times a test can see.
func quick(rules []alarmtest.Rule) []alarmtest.Rule {
	for i := range rules {
		rules[i].Hold /= 1000
		rules[i].Quiet = ""
		if rules[i].Silent > 0 { // decided by a clock: other tests
			rules[i].Silent, rules[i].Flag, rules[i].K = 0, outcome.FlagGap, 1
		}
	}
	return rules
}

// Each event is published once, whatever is killed, and when two processes run at once;
// the log is what the oracle says of all predictions.
func TestOnceUnderKills(t *testing.T) {
	r := newRig(t, -1)
	rng := rand.New(rand.NewPCG(3, 4))
	rules := quick(alarmtest.RandomRules(rng))
	for len(rules) < 4 {
		rules = quick(alarmtest.RandomRules(rng))
	}
	o := watch.Options{Rules: rulesOf(t, rules), Save: 50 * time.Millisecond}
	began := make(chan struct{})
	var once sync.Once
	o.Begun = func(alarm.Rules) { once.Do(func() { close(began) }) }
	keeps := atomic.Int64{}
	o.Writes = func() { keeps.Add(1) }
	running := []*process{r.start(o)}
	<-began
	messages := alarmtest.RandomMessages(rng, 40, 1500)
	for i, m := range messages {
		r.send(m)
		switch {
		case i%100 == 50: // killed, and started again
			running[0].kill()
			before := keeps.Load()
			running = append(running[1:], r.start(o))
			r.await("the next process", func() bool { return keeps.Load() > before }) // or it would stand by
		case i%300 == 299: // a second one takes over
			over := o
			over.TakeOver = true
			running = append(running, r.start(over))
		}
		if len(running) > 1 && i%300 == 30 {
			running = one(t, running)
		}
	}
	if len(running) > 1 { // both may have begun at once: either may have the alarms
		running = one(t, running)
	}
	last := running[0]
	r.await("all to be judged", func() bool { return r.position() >= r.sent[len(r.sent)-1].Seq })
	r.end(last)
	got := r.events()
	if got[0].Kind != alarm.RulesChanged {
		t.Fatalf("the log begins with %+v", got[0])
	}
	want := alarmtest.ExpectEvents(rules, r.past())
	alarmtest.WantEvents(t, alarmtest.Shift(got[1:]), want)
	if len(want) < 100 {
		t.Errorf("only %d events", len(want))
	}
	r.latest(want)
}

// one waits until one of two processes has lost the alarms to the other, which remains.
func one(t *testing.T, running []*process) []*process {
	t.Helper()
	var err error
	rest := running[:1]
	select {
	case err = <-running[0].done:
		rest = running[1:]
	case err = <-running[1].done:
	}
	if !errors.Is(err, watch.ErrFenced) {
		t.Fatalf("one of two processes ends with %v", err)
	}
	return rest
}

// position is that of the newest stored state.
func (r *rig) position() uint64 {
	s, err := r.js.Stream(r.t.Context(), wire.AlarmStream("job"))
	if err != nil {
		return 0
	}
	m, err := s.GetLastMsgForSubject(r.t.Context(), wire.AlarmRecordSubject("job"))
	if err != nil {
		return 0
	}
	var rec struct {
		Position uint64 `json:"position"`
	}
	if err := json.Unmarshal(m.Data, &rec); err != nil {
		r.t.Fatal(err)
	}
	return rec.Position
}

func (r *rig) await(what string, ok func() bool) { r.t.Helper(); pipelinetest.Until(r.t, what, ok) }

// latest compares the bucket of what is known of each stream.
func (r *rig) latest(events []alarmtest.Event) {
	r.t.Helper()
	kv, err := r.js.KeyValue(r.t.Context(), wire.LatestBucket("job"))
	if err != nil {
		r.t.Fatal(err)
	}
	last := map[string]uint64{}
	for _, m := range r.sent {
		for _, p := range m.Predictions {
			last[p.Stream] = m.Seq
		}
	}
	on := map[string]map[string]string{}
	for _, e := range events {
		if on[e.Key] == nil {
			on[e.Key] = map[string]string{}
		}
		if on[e.Key][e.Rule] = alarm.Raised; e.Kind == alarm.Cleared {
			delete(on[e.Key], e.Rule)
		}
	}
	for name, seq := range last {
		entry, err := kv.Get(r.t.Context(), alarm.Token(name))
		if err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
		var l alarm.Latest
		if err := json.Unmarshal(entry.Value(), &l); err != nil {
			r.t.Fatal(err)
		}
		if l.Stream != name || l.Position != seq || fmt.Sprint(l.Alarms) != fmt.Sprint(on[name]) {
			r.t.Errorf("%s at message %d with alarms %v: the bucket has %+v", name, seq, on[name], l)
		}
	}
}

func bad(stream string, outs uint64, class int32) alarm.Message {
	return alarm.Message{Outs: outs, Predictions: []codec.Prediction{{Stream: stream, Answer: outcome.Answer{Class: class}, Time: codec.NoTime}}}
}

// An alarm is acknowledged once, other rules take its place, and all of it is the same
// after a kill. A stream that is silent raises an alarm.
func TestRequests(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub", "quiet": "silent 1ms, streams other"})
	if err != nil {
		t.Fatal(err)
	}
	o := watch.Options{Rules: rules}
	begun := make(chan struct{}, 4)
	o.Begun = func(alarm.Rules) { begun <- struct{}{} }
	p := r.start(o)
	<-begun
	r.send(bad("s", 1, 2))
	r.send(bad("other", 2, 0))
	on := func() []alarm.Event {
		all, err := watch.On(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	r.await("two alarms", func() bool { return len(on()) == 2 })
	ask := func(a watch.Acknowledgement) error {
		_, err := watch.Acknowledge(t.Context(), r.js.Conn(), "job", a)
		return err
	}
	if err := ask(watch.Acknowledgement{Rule: "rub", Key: "s", Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []watch.Acknowledgement{{Rule: "rub", Key: "s", Who: "anna"}, {Rule: "rub", Key: "t", Who: "anna"}, {Rule: "rub", Key: "s"}, {Who: "anna"}} {
		if err := ask(a); !errors.Is(err, watch.ErrRefused) {
			t.Errorf("%+v: %v, want a refusal", a, err)
		}
	}
	p.kill()
	p = r.start(o) // the same configuration: nothing changes
	<-begun
	set := map[string]string{"rub": "class rub|imbalance, 2 of 2"}
	if _, err := watch.SetRules(t.Context(), r.js.Conn(), "job", watch.RuleSet{Rules: set, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p = r.start(o) // what was set stands
	<-begun
	kinds := ""
	for _, e := range r.events() {
		kinds += e.Kind + " " + e.Rule + e.Key + e.Why + "\n"
	}
	if want := "rules \nraised rubs\nraised quietother\nacknowledged rubs\nrules \ncleared quietotherthe rule was changed or removed\n"; kinds != want {
		t.Errorf("the log has\n%swant\n%s", kinds, want)
	}
	if all := on(); len(all) != 1 || all[0].Kind != alarm.Acknowledged || all[0].Who != "anna" {
		t.Errorf("%+v are on", all)
	}
	r.end(p)
	if err := ask(watch.Acknowledgement{Rule: "rub", Key: "s", Who: "anna"}); !errors.Is(err, watch.ErrNobody) {
		t.Errorf("without a process: %v", err)
	}
}

// Predictions that are gone before they were judged end the process, or are left out
// where that was asked for: alarms that are on stay on.
func TestMissing(t *testing.T) {
	r := newRig(t, 3)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub, 2 of 2"})
	if err != nil {
		t.Fatal(err)
	}
	r.send(bad("s", 1, 2))
	o := watch.Options{Rules: rules, Since: time.Unix(1, 0)}
	p := r.start(o)
	r.send(bad("s", 2, 2))
	r.await("the alarm", func() bool {
		on, err := watch.On(t.Context(), r.js, "job")
		return err == nil && len(on) == 1
	})
	p.kill()
	<-p.done
	for i := range uint64(10) {
		r.send(bad("s", 3+i, 2))
	}
	p = r.start(o)
	if err := <-p.done; !errors.Is(err, alarm.ErrMissing) {
		t.Fatalf("with missing predictions: %v", err)
	}
	p.nc.Close()
	o.Missing = true
	p = r.start(o)
	r.send(bad("s", 13, 0))
	r.send(bad("s", 14, 0))
	r.await("the end of the alarm", func() bool {
		on, err := watch.On(t.Context(), r.js, "job")
		return err == nil && len(on) == 0
	})
	r.end(p)
	if err := r.js.DeleteStream(t.Context(), wire.OutputStream("job")); err != nil {
		t.Fatal(err)
	}
	if err := watch.Run(t.Context(), r.js.Conn(), watch.Options{Job: "job"}); !errors.Is(err, watch.ErrNoJob) {
		t.Errorf("of a job without an output: %v", err)
	}
}

// FuzzAcknowledgement: bytes from elsewhere are refused, or an acknowledgement.
func FuzzAcknowledgement(f *testing.F) {
	f.Add([]byte(`{"rule":"a","key":"s","who":"anna"}`))
	f.Add([]byte(`{"rule":"a","key":"s","alarm":7,"who":"anna","more":1}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := watch.ParseAcknowledgement(data)
		if err == nil && (a.Rule == "" || a.Who == "") {
			t.Fatalf("%q gives %+v", data, a)
		}
	})
}
