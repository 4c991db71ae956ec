package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// configBeside returns a job that reads another job's input.
func configBeside(job, input string) pipeline.Config {
	c := quickConfig(job, 0)
	c.Shared = pipeline.SharedInput{Job: input}
	return c
}

// Two jobs with different models and policies on one input, their workers killed
// repeatedly, the second job begun after half of the input: each predicts like an
// engine fed directly, bit for bit, and the input is stored once.
func TestTwoJobsOnOneInput(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(20, 60)
	packets, sent := pipelinetest.Mixed(streams, 8)
	packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 2)))
	blue := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	green := pipelinetest.Bank(t, 2, 9, 2, reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2})
	b := newRig(t)
	own, other := quickConfig("blue", 6), configBeside("green", "blue")
	other.MaxSlots = 4 // most states are stored apart
	at, part := 0, len(packets)/8
	next := func(n int) []pipelinetest.Packet {
		from := at
		at = min(len(packets), at+n)
		return packets[from:at]
	}
	first := b.startStage(blue, own)
	b.publishPackets(next(4 * part))
	for range 3 {
		second := b.startStage(green, other)
		b.publishPackets(next(part))
		first.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 5 })
		second.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 5 })
		first.crashStage(t)
		second.crashStage(t)
		b.expireMembers(own.Job)
		b.expireMembers(other.Job)
		first = b.startStage(blue, own)
	}
	second := b.startStage(green, other)
	b.publishPackets(next(len(packets)))
	want := map[string]map[string][]codec.Prediction{own.Job: direct(t, blue, streams, sent), other.Job: direct(t, green, streams, sent)}
	for job, all := range want {
		same(t, clean(b.awaitPredictions(job, count(all)), outcome.FlagReordered), clean(all, outcome.FlagReordered))
		if dead := b.deadLetters(job); len(dead) > 0 {
			t.Errorf("job %s has %d dead letters, the first: %+v", job, len(dead), dead[0])
		}
	}
	first.stopStage(t)
	second.stopStage(t)
	for p := range own.Partitions {
		for c, m := range map[*pipeline.Config]*reservoir.Model{&own: blue, &other: green} {
			if _, err := b.newChanger(m, *c).verifyPartition(t.Context(), b.js, p); err != nil {
				t.Error(err)
			}
		}
	}
	b.storedOnce(t, len(packets))
}

// storedOnce requires a single NATS stream with the samples, stored once; -1 messages:
// some were removed.
func (b *rig) storedOnce(t *testing.T, messages int) {
	t.Helper()
	if _, err := b.js.Stream(t.Context(), wire.InputStream("green")); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the second job has an input of its own (%v)", err)
	}
	in, err := b.js.Stream(t.Context(), wire.InputStream("blue"))
	if err != nil {
		t.Fatal(err)
	}
	if n := in.CachedInfo().State.Msgs; messages >= 0 && n != uint64(messages) {
		t.Errorf("the input has %d messages, want the %d that were published", n, messages)
	}
	j, err := admin.Open(t.Context(), b.js, "green")
	if err != nil {
		t.Fatal(err)
	}
	held, err := j.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range held.Average().Streams {
		if s.Stream != "GREEN-OUT" && s.Stream != "GREEN-DLQ" {
			t.Errorf("the second job counts %s, %d bytes, as its own", s.Stream, s.Bytes)
		}
	}
	if readers, err := j.Readers(t.Context()); err != nil || len(readers) > 0 || j.InputJob() != "blue" {
		t.Errorf("the second job reads the input of %q and is read by %v (%v)", j.InputJob(), readers, err)
	}
	for p := range j.NumPartitions() {
		if s, err := j.Status(t.Context(), p); err != nil || s.Lag > 0 {
			t.Errorf("partition %d: %d messages have no answer (%v)", p, s.Lag, err)
		}
	}
}

// Each job ends its own sequences: the job with 300 ms of allowed silence predicts, the
// job with an hour does not, and a replay of the same log gives each the same states.
func TestSharedSilence(t *testing.T) {
	for name, quickOne := range map[string]string{"the reader's": "green", "the owner's": "blue"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
			b := newRig(t)
			jobs := []pipeline.Config{quickConfig("blue", 2), configBeside("green", "blue")}
			running := map[string]*running{}
			for i := range jobs {
				jobs[i].Idle = time.Hour
				if jobs[i].Job == quickOne {
					jobs[i].Idle = 300 * time.Millisecond
				}
				running[jobs[i].Job] = b.startStage(m, jobs[i])
			}
			const keys = 8
			for k := range keys {
				b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", k), 1, 2, .5, false)})
			}
			running[quickOne].waitUntil(t, "end of all sequences", func(s pipeline.Stats) bool { return s.Idle == keys && s.Lag == 0 })
			for k := range keys {
				b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", k), 2, 2, .25, true)})
			}
			sums := map[string][]string{}
			for _, c := range jobs {
				want, idle := keys, 0
				if c.Job == quickOne {
					want, idle = 2*keys, keys
				}
				ended := 0
				for _, ps := range b.awaitPredictions(c.Job, want) {
					for _, p := range ps {
						if p.Flags&outcome.FlagIdle != 0 {
							ended++
						}
					}
				}
				r := running[c.Job]
				r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
				r.stopStage(t)
				if got := count(b.readPredictions(c.Job)); got != want || ended != idle {
					t.Errorf("job %s made %d predictions, %d of them at a silence, want %d and %d", c.Job, got, ended, want, idle)
				}
				if dead := b.deadLetters(c.Job); len(dead) > 0 {
					t.Errorf("job %s has %d dead letters, the first: %+v", c.Job, len(dead), dead[0])
				}
				sums[c.Job] = b.finalDigests(c.Job, 2)
			}
			for _, c := range jobs { // the same log, without any clock
				b.forgetOutput(c.Job)
				c.Idle = 0
				r := b.startStage(m, c)
				b.awaitPredictions(c.Job, keys)
				r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
				r.stopStage(t)
				if again := b.finalDigests(c.Job, 2); !slices.Equal(again, sums[c.Job]) {
					t.Errorf("job %s: final states %v, with clocks %v", c.Job, again, sums[c.Job])
				}
			}
		})
	}
}

// A job with a beginning in the middle of another job's input ignores earlier messages,
// flags the first sequences, and keeps the beginning through kills, also before the
// first snapshot.
func TestSharedFrom(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	own := quickConfig("blue", 1)
	first := b.startStage(m, own)
	b.publishPackets(endedSequences("s", 3, 1))
	b.awaitPredictions(own.Job, 3)
	time.Sleep(10 * time.Millisecond)
	between := time.Now()
	b.publishPackets(endedSequences("s", 1, 2))
	now, since := configBeside("now", "blue"), configBeside("since", "blue")
	now.SnapshotMessages, since.SnapshotMessages = 1000, 1000
	now.Shared.From, since.Shared.From = "now", between.UTC().Format(time.RFC3339Nano)
	want := map[string]int{"now": 2, "since": 3}
	for _, c := range []pipeline.Config{now, since} {
		r := b.startStage(m, c)
		if c.Job == "now" {
			b.publishPackets(endedSequences("s", 1, 3))
		}
		b.awaitPredictions(c.Job, want[c.Job]-1)
		r.crashStage(t)
		b.expireMembers(c.Job)
	}
	b.publishPackets(endedSequences("s", 1, 4))
	for _, c := range []pipeline.Config{now, since} {
		c.Shared = pipeline.SharedInput{} // the job's entry has it
		r := b.startStage(m, c)
		got := b.awaitPredictions(c.Job, want[c.Job])["s"]
		r.stopStage(t)
		var words []string
		for _, p := range got {
			words = append(words, p.Flags.Integrity())
		}
		if len(words) != want[c.Job] || words[0] != "gap" || words[len(words)-1] != "complete" {
			t.Errorf("job %s has made the predictions %v, want %d, the first with a gap", c.Job, words, want[c.Job])
		}
		all := b.awaitPredictions(own.Job, 6)["s"]
		for i, p := range got {
			if !slices.Equal(p.Scores, all[6-len(got)+i].Scores) {
				t.Errorf("job %s, prediction %d has the scores %v, of job %s %v", c.Job, i, p.Scores, own.Job, all[6-len(got)+i].Scores)
			}
		}
		if v, err := b.newChanger(m, c).verifyPartition(t.Context(), b.js, 0); err != nil {
			t.Errorf("job %s: %+v: %v", c.Job, v, err)
		}
	}
	first.stopStage(t)
}

// An unreadable input is refused with a sentence, before any creation.
func TestSharedRefusals(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	own := quickConfig("blue", 2)
	own.Input = formats.Input{Format: formats.JSON}
	b.startStage(m, own).stopStage(t)
	apart := quickConfig("apart", 2)
	apart.InputSubject = "apart.*"
	b.startStage(m, apart).stopStage(t)
	green := configBeside("green", "blue")
	green.Input = formats.Input{Format: formats.Auto}
	b.startStage(m, green).stopStage(t)
	for name, try := range map[string]struct {
		change func(c *pipeline.Config)
		words  []string
	}{
		"no such job":     {func(c *pipeline.Config) { c.Shared.Job = "none" }, []string{`"none"`, "no such job", "NONE-IN"}},
		"itself":          {func(c *pipeline.Config) { c.Shared.Job = c.Job }, []string{"names itself"}},
		"a name":          {func(c *pipeline.Config) { c.Shared.Job = "Blue!" }, []string{"Blue!", "lower-case"}},
		"a reader":        {func(c *pipeline.Config) { c.Shared.Job = "green" }, []string{`"green"`, "has none", "set input.job to blue"}},
		"another subject": {func(c *pipeline.Config) { c.InputSubject = "plant.>" }, []string{"sensors.*", "plant.>"}},
		"partitions":      {func(c *pipeline.Config) { c.Partitions = 5 }, []string{"2 partitions", "says 5"}},
		"another format":  {func(c *pipeline.Config) { c.Input = formats.Input{Format: formats.CSV} }, []string{"json", "csv", "input.format"}},
		"a beginning":     {func(c *pipeline.Config) { c.Shared.From = "yesterday" }, []string{"yesterday", "beginning"}},
		"own, from now":   {func(c *pipeline.Config) { c.Shared = pipeline.SharedInput{From: "now"} }, []string{"now", "input.job"}},
		"its own input":   {func(c *pipeline.Config) { c.Job = "apart" }, []string{`"apart"`, "an input of its own", "APART-IN"}},
		"another's":       {func(c *pipeline.Config) { c.Job, c.Shared.Job = "green", "apart" }, []string{`the input of job "blue"`, `the input of job "apart"`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := configBeside("new", "blue")
			c.Input = formats.Input{Format: formats.Auto}
			try.change(&c)
			mentions(t, b.launchFails(m, c), try.words...)
		})
	}
	jobs, err := admin.Jobs(t.Context(), b.js)
	if err != nil || !slices.Equal(jobs, []string{"apart", "blue", "green"}) {
		t.Errorf("the server has the jobs %v (%v)", jobs, err)
	}
	out, err := b.js.Stream(t.Context(), wire.OutputStream("green"))
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := store.ReadEntry(t.Context(), out, "green"); err != nil || e.Source.Job != "blue" || formats.JSON != mustParse(t, e.Input).Format {
		t.Errorf("the reader's entry is %+v (%v), want blue's input, read as JSON", e, err)
	}
	b.deleteStreams("BLUE-IN", "BLUE-OUT", "BLUE-DLQ", "BLUE-ROWS", "OBJ_BLUE-SNAP", "KV_BLUE-MEMBERS")
	b.startStage(m, own).stopStage(t)
	mentions(t, b.launchFails(m, green), "created", "BLUE-IN")
}

// deleteStreams removes NATS streams.
func (b *rig) deleteStreams(streams ...string) {
	b.t.Helper()
	for _, name := range streams {
		if err := b.js.DeleteStream(context.Background(), name); err != nil {
			b.t.Fatal(name, err)
		}
	}
}

func mustParse(t *testing.T, text string) formats.Input {
	t.Helper()
	in, err := formats.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The number of partitions of a shared input stays, and a dead letter of one job is not
// sent to all.
func TestSharedStays(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	own, green := quickConfig("blue", 2), configBeside("green", "blue")
	b.startStage(m, own).stopStage(t)
	first := b.startStage(m, green)
	bad := pipelinetest.One("s", 1, 2, 1, true)
	bad.Raw = []byte("no samples")
	b.publishPackets([]pipelinetest.Packet{bad})
	second := b.startStage(m, own)
	for _, r := range []*running{first, second} {
		r.waitUntil(t, "dead letter", func(s pipeline.Stats) bool { return s.DeadLetters == 1 })
		r.stopStage(t)
	}
	if _, err := b.newChanger(m, own).resizeJob(t.Context(), 3); !errors.Is(err, operate.ErrShared) {
		t.Errorf("resize of the input: %v, want %v", err, operate.ErrShared)
	} else {
		mentions(t, err, "green")
	}
	if _, err := b.newChanger(m, green).resizeJob(t.Context(), 3); !errors.Is(err, operate.ErrShared) {
		t.Errorf("resize by the reader: %v, want %v", err, operate.ErrShared)
	}
	for _, job := range []string{"blue", "green"} {
		letters := b.deadLetters(job)
		if len(letters) != 1 || letters[0].Subject != fmt.Sprintf("blue.in.%d.s", letters[0].Partition) {
			t.Fatalf("job %s has the dead letters %+v", job, letters)
		}
		j, err := admin.Open(t.Context(), b.js, job)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Replay(t.Context(), letters[0]); !errors.Is(err, admin.ErrShared) {
			t.Errorf("job %s sends a dead letter to all: %v", job, err)
		}
	}
	// A reader that begins during the change, and a reader that is gone.
	blue := b.newChanger(m, own)
	blue.before = func(what string) error {
		if what == "note switch" {
			return errors.New("killed")
		}
		return nil
	}
	b.deleteStreams("GREEN-OUT", "GREEN-DLQ", "GREEN-ROWS", "OBJ_GREEN-SNAP", "KV_GREEN-MEMBERS")
	if _, err := blue.resizeJob(t.Context(), 3); err == nil || errors.Is(err, operate.ErrShared) {
		t.Fatalf("resize without readers: %v", err)
	}
	mentions(t, b.launchFails(m, green), "blue", "being changed")
	blue.before = nil
	b.resizeJob(m, own, 3)
	blue.before = func(what string) error { // between the two looks for readers
		if what == "note claim" {
			b.startStage(m, green).stopStage(t)
		}
		return nil
	}
	if _, err := blue.resizeJob(t.Context(), 2); !errors.Is(err, operate.ErrShared) {
		t.Errorf("a resize goes on beside a reader that began meanwhile: %v", err)
	}
	if err := blue.abandonChange(t.Context()); err != nil {
		t.Error(err)
	}
	own.Partitions = 3
	b.startStage(m, own).stopStage(t)
	b.startStage(m, green).stopStage(t)
}
