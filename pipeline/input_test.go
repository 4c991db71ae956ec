package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// writings are the ways to write a packet's samples, each with its input format.
var writings = []struct {
	name  string
	in    formats.Input
	write func(b *codec.Batch) string
}{
	{"arrow", formats.Input{}, nil},
	{"json", formats.Input{Format: formats.JSON, Channels: map[string]string{"x": "$.axis.x", "y": "$.axis.y"}, Time: "$.t", TimeUnit: "ns"}, func(b *codec.Batch) string {
		var rows []string
		for i := range b.Rows {
			end := ""
			if len(b.Ends) > 0 {
				end = fmt.Sprintf(`,"end":%v`, b.Ends[i])
			}
			rows = append(rows, fmt.Sprintf(`{"t":%d,"axis":{"x":%v,"y":%v}%s}`, b.Times[i], b.X[2*i], b.X[2*i+1], end))
		}
		return "[" + strings.Join(rows, ",") + "]"
	}},
	{"csv", formats.Input{Format: formats.CSV, Separator: ";", Channels: map[string]string{"x": `["x axis"]`}}, func(b *codec.Batch) string {
		s := "ts;x axis;y;end\n"
		for i := range b.Rows {
			s += fmt.Sprintf("%d;%v;%v;%v\n", b.Times[i], b.X[2*i], b.X[2*i+1], len(b.Ends) > 0 && b.Ends[i])
		}
		return s
	}},
	{"influx", formats.Input{Format: formats.Influx}, func(b *codec.Batch) string {
		s := "# rows\n"
		for i := range b.Rows {
			s += fmt.Sprintf("machine,site=a x=%v,y=%v,end=%v %d\n", b.X[2*i], b.X[2*i+1], len(b.Ends) > 0 && b.Ends[i], b.Times[i])
		}
		return s
	}},
}

// writePackets returns packets with their samples in a written form.
func writePackets(packets []pipelinetest.Packet, write func(*codec.Batch) string) []pipelinetest.Packet {
	var all []pipelinetest.Packet
	for _, p := range packets {
		if write != nil {
			p.Raw = []byte(write(&p.Batch))
		}
		all = append(all, p)
	}
	return all
}

// The same samples in each format, one job each, give the predictions of an engine fed
// directly, bit for bit: live, and replayed after a kill by a worker that uses the
// job's format. Verify uses the job's format, too.
func TestFormatsPredictAlike(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 4})
	streams := pipelinetest.Recordings(6, 40)
	packets, sent := pipelinetest.Mixed(streams, 5)
	want := direct(t, m, streams, sent)
	b := newRig(t)
	for _, w := range writings {
		t.Run(w.name, func(t *testing.T) {
			c := quickConfig("as-"+w.name, 2)
			c.Input, c.InputSubject, c.SnapshotMessages = w.in, w.name+".*", 1000
			all := writePackets(packets, w.write)
			half := len(all) / 2
			r := b.startStage(m, c)
			b.publishOn(w.name+".", all[:half]...)
			b.settleMessages(r, half)
			r.crashStage(t)
			b.expireMembers(c.Job)
			c.Input = formats.Input{Format: formats.Auto}
			r = b.startStage(m, c)
			b.publishOn(w.name+".", all[half:]...)
			got := b.awaitPredictions(c.Job, count(want))
			if s := r.counters.Stats(); s.Replayed == 0 {
				t.Error("nothing was replayed: the test has lost its subject")
			}
			c.Input = formats.Input{Format: formats.JSON, Time: "$.else"}
			for p := range c.Partitions {
				v, err := replay.Verify(t.Context(), b.js, &pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic}, p)
				if err != nil || v.Digest != v.Recorded || v.Replayed == 0 {
					t.Errorf("verify: %+v, %v", v, err)
				}
			}
			r.stopStage(t)
			same(t, got, want)
			if dead := b.deadLetters(c.Job); len(dead) > 0 {
				t.Errorf("dead letter: %s", dead[0].Reason)
			}
		})
	}
}

// refusedInput runs a stage that must end immediately because of another input format.
func (b *rig) refusedInput(t *testing.T, m *reservoir.Model, c pipeline.Config, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := (&pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}).Run(ctx)
	if !errors.Is(err, pipeline.ErrOtherModel) {
		t.Fatalf("run ended with %v, want %v", err, pipeline.ErrOtherModel)
	}
	mentions(t, err, words...)
}

// A job keeps its input format. Another format is refused, naming the difference; only
// input.format auto uses the job's, including Arrow.
func TestJobKeepsItsInput(t *testing.T) {
	m, _, retrained := twoModels(t)
	b := newRig(t)
	c := quickConfig("kept", 2)
	c.Input = formats.Input{Format: formats.JSON, Channels: map[string]string{"x": "$.a"}, TimeUnit: "ms"}
	r := b.startStage(m, c)
	other := func(in formats.Input, words ...string) {
		t.Helper()
		c := c
		c.Input = in
		b.refusedInput(t, m, c, append(words, `job "kept"`, "another job name")...)
	}
	check := func() {
		other(formats.Input{}, "input.format", `"json", not "arrow"`)
		other(formats.Input{Format: formats.JSON}, `input.channels of "x" is "$.a", not not set`, `input.time_unit is "ms", not "ns"`)
		c.Input.Separator = "|" // does nothing in JSON
		other(formats.Input{Format: formats.JSON, Channels: map[string]string{"x": "$.b"}, TimeUnit: "ms"}, `"$.a", not "$.b"`)
		b.forgetRegistry(c.Job)
		b.refusedFor(t, retrained, c, "readout")
	}
	check()
	r.stopStage(t)
	check()
	b.startUp(c)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("kept"))
	if err != nil {
		t.Fatal(err)
	}
	e, _, err := store.ReadEntry(t.Context(), out, "kept")
	if err != nil || e.Input != c.Input.Text() {
		t.Fatalf("stored %q, %v", e.Input, err)
	}
	arrow, err := readoutOf(m, m.Readouts[0])
	if err != nil || arrow == e.Readout {
		t.Error("a worker that reads Arrow would not be refused")
	}

	old, auto := quickConfig("old", 2), quickConfig("old", 2)
	old.InputSubject, auto.InputSubject = "old.*", "old.*"
	auto.Input = formats.Input{Format: formats.Auto}
	b.startStage(m, old).stopStage(t)
	for _, purge := range []bool{false, true} {
		if purge { // the job's records still show it
			r := b.startStage(m, old)
			b.publishOn("old.", pipelinetest.One("a", 1, 6, 1, true), pipelinetest.One("b", 1, 6, 1, true))
			b.settleMessages(r, 2)
			r.stopStage(t)
			b.onStream(wire.OutputStream("old"), func(ctx context.Context, s jetstream.Stream) error {
				return s.Purge(ctx, jetstream.WithPurgeSubject(wire.EntrySubject("old")))
			})
		}
		b.startStage(m, auto).stopStage(t)
		out, err := b.js.Stream(t.Context(), wire.OutputStream("old"))
		if err != nil {
			t.Fatal(err)
		}
		if e, _, err := store.ReadEntry(t.Context(), out, "old"); err != nil || e.Input != "" || e.Readout != arrow {
			t.Errorf("purged %v: entry %+v, %v", purge, e, err)
		}
	}
}

// A message in another format than the job's becomes a dead letter that names the
// detected format and the setting. With auto each message may have a different format,
// and the log names it once.
func TestOtherFormatIsADeadLetter(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b, book := newLoggedRig(t)
	send := func(key, payload string) {
		if _, err := b.js.PublishMsg(context.Background(), &nats.Msg{Subject: "sensors." + key, Data: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	c := quickConfig("first", 1)
	r := b.startStage(m, c)
	send("a", `{"x": 1, "y": 2}`)
	r.waitUntil(t, "a dead letter", func(s pipeline.Stats) bool { return s.DeadLetters == 1 })
	dead := b.deadLetters("first")
	mentions(t, errors.New(dead[0].Reason), "looks like JSON", `{\"x\": 1`, "input.format: json (or auto)")
	r.stopStage(t)

	c = quickConfig("second", 1)
	c.Input, c.InputSubject = formats.Input{Format: formats.Auto}, "any.*"
	r = b.startStage(m, c)
	b.publishOn("any.", pipelinetest.One("a", 0, 3, 1, false))
	b.publishOn("any.", pipelinetest.Packet{Key: "a", Raw: []byte(`[{"x":1,"y":-1},{"x":1,"y":-1,"end":true}]`)})
	got := b.awaitPredictions("second", 1)
	b.publishOn("any.", pipelinetest.Packet{Key: "a", Raw: []byte(`{"temp":1,"speed":{"mean":2}}`)})
	r.waitUntil(t, "a dead letter", func(s pipeline.Stats) bool { return s.DeadLetters == 1 })
	r.stopStage(t)
	mentions(t, errors.New(b.deadLetters("second")[0].Reason), `no channel "x"`, "temp, speed.mean", "input.channels")
	expected := predictAlone(t, m, codec.Reject, pipelinetest.One("a", 0, 5, 1, true))
	if got["a"][0].Score != expected[0].Score {
		t.Errorf("score %v, want %v", got["a"][0].Score, expected[0].Score)
	}
	for _, f := range []string{"arrow", "json"} {
		if n := strings.Count(book.String(), "format="+f); n != 1 {
			t.Errorf("the log names %s %d times:\n%s", f, n, book.String())
		}
	}
}

// A worker with an open format begins a new job, and another worker stores a format
// first: the worker restarts, with that format.
func TestFormatStoredMeanwhileIsTaken(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b, book := newLoggedRig(t)
	c := quickConfig("meanwhile", 2)
	c.Input = formats.Input{Format: formats.JSON, Time: "$.t"}
	var other *running
	open := c
	open.Input = formats.Input{Format: formats.Auto}
	r := b.launchStage(m, open, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		if other == nil { // after this worker's check, before it writes anything
			other = b.launchStage(m, c, pipelinetest.Generic)
		}
		return pipelinetest.Generic(net, slots)
	})
	if n := book.Lines("the job began with this input format"); n != 1 {
		t.Errorf("the format was taken %d times:\n%s", n, book.String())
	}
	other.stopStage(t)
	b.expireMembers(c.Job)
	b.publishPackets([]pipelinetest.Packet{{Key: "a", Raw: []byte(`{"x":1,"y":2,"t":5,"end":true}`)}})
	if got := b.awaitPredictions(c.Job, 1); got["a"][0].Time != 5 {
		t.Errorf("%+v", got)
	}
	r.stopStage(t)
}
