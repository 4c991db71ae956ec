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

// rig is a server with a job's output; the test writes the output.
type rig struct {
	t      *testing.T
	dir    string
	server *natsserver.Server
	js     jetstream.JetStream
	enc    *codec.PredictionEncoder
	stored map[uint64]time.Time // messages of the output
	sent   []alarm.Message
	wait   time.Duration // of clients between two connection attempts, if not 0
}

func newRig(t *testing.T, keep int64) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), stored: map[uint64]time.Time{}}
	r.startServer()
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}, MaxMsgsPerSubject: keep})
	if err != nil {
		t.Fatal(err)
	}
	if r.enc, err = codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"ok", "imbalance", "rub"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// startServer starts the server.
func (r *rig) startServer() {
	r.t.Helper()
	r.server = pipelinetest.Server(r.t, natsserver.Options{Dir: r.dir})
	_, r.js = pipelinetest.Connect(r.t, r.server)
}

// publishOutput publishes an output message as a worker does.
func (r *rig) publishOutput(m alarm.Message) {
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

// process is watch.Run in a goroutine, with its own connection.
type process struct {
	nc   *nats.Conn
	stop context.CancelFunc
	done chan error
}

func (r *rig) startProcess(o watch.Options) *process {
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

// kill ends the process without an orderly disconnect.
func (p *process) kill() {
	p.nc.Close()
	p.stop()
}

// stopProcess stops the process orderly.
func (r *rig) stopProcess(p *process) {
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

// readEvents returns the events of the alarm log, and its rules events.
func (r *rig) readEvents() (all []alarm.Event) {
	r.t.Helper()
	if err := watch.ReadEvents(r.t.Context(), r.js, "job", time.Unix(1, 0), false, func(e alarm.Event) error {
		all = append(all, e)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// history returns the output's contents in the oracle's form.
func (r *rig) history() (all []alarmtest.Entry) {
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

// withShortTimes returns rules with times that a test can observe.
func withShortTimes(rules []alarmtest.Rule) []alarmtest.Rule {
	for i := range rules {
		rules[i].Hold /= 1000
		rules[i].Quiet = ""
		if rules[i].Silent > 0 { // depends on a clock: other tests
			rules[i].Silent, rules[i].Flag, rules[i].K = 0, outcome.FlagGap, 1
		}
	}
	return rules
}

// TestOnceUnderKills: each event is published once under kills and with two running processes; the
// log matches the oracle's result for all predictions.
func TestOnceUnderKills(t *testing.T) {
	r := newRig(t, -1)
	rng := rand.New(rand.NewPCG(3, 4))
	rules := withShortTimes(alarmtest.RandomRules(rng))
	for len(rules) < 4 {
		rules = withShortTimes(alarmtest.RandomRules(rng))
	}
	o := watch.Options{Rules: rulesOf(t, rules), Save: 50 * time.Millisecond}
	began := make(chan struct{})
	var once sync.Once
	o.Begun = func(alarm.Rules) { once.Do(func() { close(began) }) }
	keeps := atomic.Int64{}
	o.Writes = func() { keeps.Add(1) }
	running := []*process{r.startProcess(o)}
	<-began
	messages := alarmtest.RandomMessages(rng, 40, 1500)
	for i, m := range messages {
		r.publishOutput(m)
		switch {
		case i%100 == 50: // killed and restarted
			running[0].kill()
			before := keeps.Load()
			running = append(running[1:], r.startProcess(o))
			r.waitFor("the next process", func() bool { return keeps.Load() > before }) // otherwise it would stand by
		case i%300 == 299: // a second process takes over
			over := o
			over.TakeOver = true
			running = append(running, r.startProcess(over))
		}
		if len(running) > 1 && i%300 == 30 {
			running = waitForOne(t, running)
		}
	}
	if len(running) > 1 { // two processes may have started together: either may have the alarms
		running = waitForOne(t, running)
	}
	last := running[0]
	r.waitFor("all to be judged", func() bool { return r.savedPosition() >= r.sent[len(r.sent)-1].Seq })
	r.stopProcess(last)
	got := r.readEvents()
	if got[0].Kind != alarm.RulesChanged {
		t.Fatalf("the log begins with %+v", got[0])
	}
	want := alarmtest.ExpectEvents(rules, r.history())
	alarmtest.WantEvents(t, alarmtest.Shift(got[1:]), want)
	if len(want) < 100 {
		t.Errorf("only %d events", len(want))
	}
	r.compareLatest(want)
}

// waitForOne waits until one of two processes has lost the alarms, and returns the other.
func waitForOne(t *testing.T, running []*process) []*process {
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

// savedPosition returns the position of the newest stored state.
func (r *rig) savedPosition() uint64 {
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

func (r *rig) waitFor(what string, ok func() bool) { r.t.Helper(); pipelinetest.Until(r.t, what, ok) }

// compareLatest compares the bucket with the expected latest data.
func (r *rig) compareLatest(events []alarmtest.Event) {
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

func badMessage(stream string, outs uint64, class int32) alarm.Message {
	return alarm.Message{Outs: outs, Predictions: []codec.Prediction{{Stream: stream, Answer: outcome.Answer{Class: class}, Time: codec.NoTime}}}
}

// TestRequests: an alarm is acknowledged once, other rules replace it, and a kill changes nothing.
// A silent stream raises an alarm.
func TestRequests(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub", "quiet": "silent 1ms, streams other"})
	if err != nil {
		t.Fatal(err)
	}
	o := watch.Options{Rules: rules}
	begun := make(chan struct{}, 4)
	o.Begun = func(alarm.Rules) { begun <- struct{}{} }
	p := r.startProcess(o)
	<-begun
	r.publishOutput(badMessage("s", 1, 2))
	r.publishOutput(badMessage("other", 2, 0))
	on := func() []alarm.Event {
		all, err := watch.ActiveAlarms(t.Context(), r.js, "job")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	r.waitFor("two alarms", func() bool { return len(on()) == 2 })
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
	p = r.startProcess(o) // the same configuration: nothing changes
	<-begun
	set := map[string]string{"rub": "class rub|imbalance, 2 of 2"}
	if _, err := watch.SetRules(t.Context(), r.js.Conn(), "job", watch.RuleSet{Rules: set, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	p.kill()
	p = r.startProcess(o) // the rules set by request stay
	<-begun
	kinds := ""
	for _, e := range r.readEvents() {
		kinds += e.Kind + " " + e.Rule + e.Key + e.Why + "\n"
	}
	if want := "rules \nraised rubs\nraised quietother\nacknowledged rubs\nrules \ncleared quietotherthe rule was changed or removed\n"; kinds != want {
		t.Errorf("the log has\n%swant\n%s", kinds, want)
	}
	if all := on(); len(all) != 1 || all[0].Kind != alarm.Acknowledged || all[0].Who != "anna" {
		t.Errorf("%+v are on", all)
	}
	r.stopProcess(p)
	if err := ask(watch.Acknowledgement{Rule: "rub", Key: "s", Who: "anna"}); !errors.Is(err, watch.ErrNobody) {
		t.Errorf("without a process: %v", err)
	}
}

// TestMissing: predictions removed before they were judged end the process; with Missing, they are
// skipped and active alarms stay active.
func TestMissing(t *testing.T) {
	r := newRig(t, 3)
	rules, err := alarm.ParseRules(map[string]string{"rub": "class rub, 2 of 2"})
	if err != nil {
		t.Fatal(err)
	}
	r.publishOutput(badMessage("s", 1, 2))
	o := watch.Options{Rules: rules, Since: time.Unix(1, 0)}
	p := r.startProcess(o)
	r.publishOutput(badMessage("s", 2, 2))
	r.waitFor("the alarm", func() bool {
		on, err := watch.ActiveAlarms(t.Context(), r.js, "job")
		return err == nil && len(on) == 1
	})
	p.kill()
	<-p.done
	for i := range uint64(10) {
		r.publishOutput(badMessage("s", 3+i, 2))
	}
	p = r.startProcess(o)
	if err := <-p.done; !errors.Is(err, alarm.ErrMissing) {
		t.Fatalf("with missing predictions: %v", err)
	}
	p.nc.Close()
	o.Missing = true
	p = r.startProcess(o)
	r.publishOutput(badMessage("s", 13, 0))
	r.publishOutput(badMessage("s", 14, 0))
	r.waitFor("the end of the alarm", func() bool {
		on, err := watch.ActiveAlarms(t.Context(), r.js, "job")
		return err == nil && len(on) == 0
	})
	r.stopProcess(p)
	if err := r.js.DeleteStream(t.Context(), wire.OutputStream("job")); err != nil {
		t.Fatal(err)
	}
	if err := watch.Run(t.Context(), r.js.Conn(), watch.Options{Job: "job"}); !errors.Is(err, wire.ErrNoJob) {
		t.Errorf("of a job without an output: %v", err)
	}
}

// FuzzAcknowledgement: arbitrary bytes are refused, or are an acknowledgement.
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
