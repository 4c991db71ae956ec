package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// sharedRounds is how often workers of two jobs are killed: more on demand.
func sharedRounds(t *testing.T) int {
	text := os.Getenv("EUSN_SHARED_KILLS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("EUSN_SHARED_KILLS is %q, want a number", text)
	}
	return n
}

// removeNumbers removes the numbers from packets: the stage must then detect lost input
// without numbers.
func removeNumbers(packets []pipelinetest.Packet, sent map[string][]pipelinetest.Packet) {
	for i := range packets {
		packets[i].Seq = 0
	}
	for _, of := range sent {
		removeNumbers(of, nil)
	}
}

// startTrimmer removes input at full speed and counts removed messages, until stop is
// called. Its connection outlives the server.
func (p *past) startTrimmer(job string) (removed *atomic.Uint64, stop func()) {
	p.t.Helper()
	nc, err := natsclient.Connect(p.t.Context(), natsclient.Options{URL: p.srv.URL(), Name: "trim", Log: testLog(p.t)})
	if err != nil {
		p.t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		p.t.Fatal(err)
	}
	removed = new(atomic.Uint64)
	var beside sync.WaitGroup
	ended := make(chan struct{})
	beside.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if d, err := (admin.Trim{Job: job}).Run(p.t.Context(), js); err == nil { // the server may be away
				removed.Add(d.Removed)
			}
		}
	})
	return removed, func() {
		close(ended)
		beside.Wait()
		nc.Close()
	}
}

// Two jobs with different models and policies on one input. Workers of both are killed
// repeatedly, one stays away for a while, and the server restarts; meanwhile, unneeded
// input is removed. Each job predicts like an engine fed directly, bit for bit, and no
// removed message counts as a loss.
func TestTwoJobsUnderKills(t *testing.T) {
	t.Parallel()
	rounds := sharedRounds(t)
	streams := pipelinetest.Recordings(20, 20*(rounds+1))
	packets, sent := pipelinetest.Mixed(streams, 8)
	removeNumbers(packets, sent)
	blue := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	green := pipelinetest.Bank(t, 2, 9, 2, reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2})
	p := newPast(t)
	b := p.newRig()
	jobs := []pipeline.Config{quickConfig("blue", 6), configBeside("green", "blue")}
	for i := range jobs {
		jobs[i].Lease, jobs[i].SnapshotMessages = 300*time.Millisecond, 3
	}
	jobs[1].MaxSlots = 4 // most states are stored apart
	models := []*reservoir.Model{blue, green}
	at, part := 0, len(packets)/(rounds+1)
	next := func(n int) []pipelinetest.Packet {
		from := at
		at = min(len(packets), at+n)
		return packets[from:at]
	}
	var now [2]*running
	begin := func(i int) {
		if now[i] == nil {
			now[i] = b.startStage(models[i], jobs[i])
		}
	}
	kill := func(i int) {
		if now[i] != nil {
			now[i].crashStage(t)
			b.expireMembers(jobs[i].Job)
			now[i] = nil
		}
	}
	begin(0)
	begin(1)
	removed, stop := p.startTrimmer("blue")
	for round := range rounds {
		b.publishPackets(next(part / 2))
		switch round % 3 {
		case 0: // one worker, which stays away until the next round
			kill(round / 3 % 2)
		case 1:
			begin(0)
			begin(1)
			before := removed.Load()
			b.publishPackets(next(part / 4))
			waitFor(t, "input removed beside the work", func() bool { return removed.Load() > before })
			kill(0)
			kill(1)
		case 2:
			p.srv.Close() // under both
			p.startServer(p.port)
			b = p.newRig()
		}
		b.publishPackets(next(part / 4))
		if round%3 > 0 {
			begin(0)
			begin(1)
		}
	}
	begin(0)
	begin(1)
	b.publishPackets(next(len(packets)))
	want := map[string]map[string][]codec.Prediction{}
	for i, c := range jobs {
		want[c.Job] = direct(t, models[i], streams, sent)
		same(t, b.awaitPredictions(c.Job, count(want[c.Job])), want[c.Job])
		if dead := b.deadLetters(c.Job); len(dead) > 0 {
			t.Errorf("job %s has %d dead letters, the first: %+v", c.Job, len(dead), dead[0])
		}
		if n := now[i].counters.Stats().Losses; n > 0 {
			t.Errorf("job %s has counted %d losses", c.Job, n)
		}
		for p := range jobs[0].Partitions {
			if _, err := b.newChanger(models[i], c).verifyPartition(t.Context(), b.js, p); err != nil {
				t.Error(err)
			}
		}
	}
	waitFor(t, "half of the input removed", func() bool { return removed.Load() > uint64(len(packets))/2 })
	stop()
	now[0].stopStage(t)
	now[1].stopStage(t)
	b.storedOnce(t, -1)
	t.Logf("of %d messages, %d were removed beside %d rounds; now %+v", len(packets), removed.Load(), rounds, b.trimInput(admin.Trim{Job: "blue"}))

	// Input contained in the states is not needed, and no loss either.
	var more []pipelinetest.Packet
	for _, r := range streams {
		more = append(more, pipelinetest.One(r.Name, 0, 20, .5, true))
	}
	for i, c := range jobs {
		now[i] = nil
		begin(i)
		if i == 0 {
			b.publishPackets(more)
		}
		now[i].waitUntil(t, "the last messages", func(s pipeline.Stats) bool { return s.Messages == uint64(len(more)) && s.Lag == 0 })
		if n := now[i].counters.Stats().Losses; n > 0 {
			t.Errorf("job %s has counted %d losses where nothing was lost", c.Job, n)
		}
		now[i].stopStage(t)
		for stream, all := range b.readPredictions(c.Job) {
			for _, p := range all {
				if p.Flags&outcome.FlagGap != 0 {
					t.Fatalf("job %s, stream %s: prediction %+v has a gap", c.Job, stream, p)
				}
			}
		}
	}
}

// trimInput removes input once.
func (b *rig) trimInput(o admin.Trim) admin.Trimmed {
	b.t.Helper()
	d, err := o.Run(b.t.Context(), b.js)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// The slowest job decides, and partitions without messages do not; young input stays; a
// dry run removes nothing.
func TestTrim(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	own, green := quickConfig("blue", 8), configBeside("green", "blue")
	own.Lease, green.Lease = 200*time.Millisecond, 200*time.Millisecond
	const n = 40
	first := b.startStage(m, own)
	b.publishPackets(endedSequences("s", n, 1))
	if d := b.trimInput(admin.Trim{Job: "blue", Keep: time.Hour}); d.Removed != 0 || d.First != 1 {
		t.Errorf("messages younger than an hour are removed: %+v", d)
	}
	second := b.startStage(m, green)
	second.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Messages == n && s.Lag == 0 })
	var d admin.Trimmed
	waitFor(t, "seven partitions of each job say that they have no input", func() bool {
		d = b.trimInput(admin.Trim{Job: "blue", Dry: true})
		return d.Begins > n/2
	})
	if d.First != 1 || d.Removed < n/2 || d.Bytes == 0 {
		t.Errorf("a dry run: %+v", d)
	}
	if d = b.trimInput(admin.Trim{Job: "blue", Keep: time.Hour}); d.Begins != 1 || !d.Young || d.Removed != 0 {
		t.Errorf("messages younger than an hour are removed: %+v", d)
	}
	second.crashStage(t) // the job is away, and needs its input without a snapshot
	b.expireMembers("green")
	d = b.trimInput(admin.Trim{Job: "blue"})
	held := d.Begins
	if d.Removed == 0 || held > n+1 {
		t.Errorf("nothing is removed: %+v", d)
	}
	b.publishPackets(endedSequences("s", n, 2))
	first.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Messages == 2*n && s.Lag == 0 })
	const least = n + 10 // the records of other partitions lag slightly
	waitFor(t, "the others of its partitions say that they have no input", func() bool {
		for p := range 8 {
			if _, r := b.lastRecord("blue", p); p != wire.PartitionOf("s", 8) && r.EmptyTo < least {
				return false
			}
		}
		return true
	})
	first.stopStage(t)
	if d = b.trimInput(admin.Trim{Job: "blue"}); d.Begins < held || d.Begins > n+1 || d.Needs[0].Job != "green" || d.Needs[0].Message != d.Begins || d.Needs[1].Message <= least {
		t.Errorf("a job that is away needs a message from %d, or from a commit that was under way when it was killed, to %d: %+v", held, n+1, d)
	}
	if d = b.trimInput(admin.Trim{Job: "blue", Without: []string{"green"}, Also: []admin.Need{{Job: "a recording", Partition: -1, Message: n + 2}}}); d.Begins != n+2 || d.Needs[0].Job != "a recording" {
		t.Errorf("a recording needs message %d: %+v", n+2, d)
	}
	if d = b.trimInput(admin.Trim{Job: "blue", Without: []string{"green"}}); d.Begins <= least {
		t.Errorf("without green, nothing is needed: %+v", d)
	}
	// The job was excluded, and has lost input: it flags predictions, or the partition
	// stops if the killed worker had committed more than stored.
	second = b.startStage(m, green)
	second.waitUntil(t, "the end", func(s pipeline.Stats) bool { return s.Lag == 0 || s.Stopped > 0 })
	b.publishPackets(endedSequences("s", 1, 3))
	found := second.waitUntil(t, "a loss", func(s pipeline.Stats) bool { return s.Losses > 0 || s.Stopped > 0 })
	second.cancel()
	if err := second.waitForEnd(t); (err != nil) != (found.Stopped > 0) { // a stopped partition is its stage's error
		t.Errorf("stage ended with %v, %d partitions stopped", err, found.Stopped)
	}
}

// An invalid request is refused, and nothing is removed.
func TestTrimRefused(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	own := quickConfig("blue", 2)
	b.answerPackets(m, own, endedSequences("s", 3, 1), 3)
	refused := func(o admin.Trim, want error, words ...string) {
		t.Helper()
		_, err := o.Run(t.Context(), b.js)
		if !errors.Is(err, want) {
			t.Fatalf("trim %+v: %v, want %v", o, err, want)
		}
		mentions(t, err, words...)
	}
	refused(admin.Trim{Job: "none"}, admin.ErrNoJob, `"none"`)
	refused(admin.Trim{Job: "blue", Without: []string{"gren"}}, admin.ErrNoReader, `"gren"`, "blue")
	s := b.newChanger(m, own)
	ended := errors.New("ended by the test")
	s.before = func(what string) error {
		if what == "note switch" {
			return ended
		}
		return nil
	}
	if _, err := s.resizeJob(t.Context(), 3); !errors.Is(err, ended) {
		t.Fatal(err)
	}
	refused(admin.Trim{Job: "blue"}, pipeline.ErrChanging, "to 3")
	if err := b.newChanger(m, own).abandonChange(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.startStage(m, configBeside("green", "blue")).stopStage(t)
	refused(admin.Trim{Job: "green"}, admin.ErrNotOwner, "trim that of job \"blue\"")
	if in, err := b.js.Stream(t.Context(), "BLUE-IN"); err != nil || in.CachedInfo().State.FirstSeq != 1 {
		t.Errorf("input was removed (%v)", err)
	}
}

// The oldest predictions and input are removed between kills. The next worker continues
// from the last message of each partition: nothing is predicted twice, nothing is lost,
// every bit is equal.
func TestOldestRemoved(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 160)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	b, c := newRig(t), quickConfig("old", 2)
	c.SnapshotMessages = 3
	stored := map[uint64]consumer.Output{}
	readAll := func() {
		b.collectMessages(wire.OutputStream(c.Job), func(ctx context.Context, seen func() error) error {
			return consumer.Predictions(ctx, b.js, c.Job, 1, func(o consumer.Output) error {
				stored[o.Seq] = o
				return seen()
			})
		})
	}
	purges, err := b.nc.SubscribeSync("$JS.API.STREAM.PURGE." + wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 4
	var predictions, input uint64
	for round := range rounds {
		r := b.startStage(m, c)
		b.publishPackets(packets[len(packets)*round/rounds : len(packets)*(round+1)/rounds])
		if round == rounds-1 {
			r.waitUntil(t, "the end", func(s pipeline.Stats) bool { return s.Lag == 0 && s.Messages > 0 })
			r.stopStage(t)
			readAll()
			break
		}
		r.waitUntil(t, "some predictions", func(s pipeline.Stats) bool { return s.Predictions > 5 })
		waitFor(t, "input that is not needed", func() bool { return b.trimInput(admin.Trim{Job: c.Job, Dry: true}).Removed > 0 })
		r.crashStage(t)
		b.expireMembers(c.Job)
		readAll()
		removed, err := admin.RemoveOldest(t.Context(), b.js, wire.OutputStream(c.Job), 1)
		if err != nil {
			t.Fatal(err)
		}
		predictions += removed
		input += b.trimInput(admin.Trim{Job: c.Job, Bytes: 1}).Removed
		out, err := b.js.Stream(t.Context(), wire.OutputStream(c.Job))
		if err != nil {
			t.Fatal(err)
		}
		if n := out.CachedInfo().State.Msgs; n != uint64(c.Partitions)+1 {
			t.Errorf("%d messages stay, want the last one of %d partitions and the job's entry", n, c.Partitions)
		}
	}
	asked := 0
	for ; ; asked++ {
		m, err := purges.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if bytes.Contains(m.Data, []byte(`"seq":1,`)) || bytes.Contains(m.Data, []byte(`"seq":1}`)) {
			t.Errorf("%s: some servers remove the whole subject", m.Data)
		}
	}
	if asked == 0 || predictions == 0 || input == 0 {
		t.Errorf("%d messages of predictions and %d of input were removed by %d requests, want some of each", predictions, input, asked)
	}
	got := map[string][]codec.Prediction{}
	for _, seq := range slices.Sorted(maps.Keys(stored)) {
		for _, p := range stored[seq].Predictions {
			got[p.Stream] = append(got[p.Stream], p)
		}
	}
	same(t, got, direct(t, m, streams, sent))
}

// A removal by size keeps the newest messages, and input that a job needs.
func TestTrimBySize(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b, c := newRig(t), quickConfig("size", 1)
	b.answerPackets(m, c, endedSequences("s", 100, 1), 100)
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	size := in.CachedInfo().State.Bytes
	if d := b.trimInput(admin.Trim{Job: c.Job, Bytes: size}); d.Removed != 0 {
		t.Errorf("input within its limit was removed: %+v", d)
	}
	if d := b.trimInput(admin.Trim{Job: c.Job, Bytes: size / 2, Keep: time.Hour}); d.Removed != 0 || !d.Young {
		t.Errorf("young input was removed: %+v", d)
	}
	if d := b.trimInput(admin.Trim{Job: c.Job, Bytes: size / 2}); d.Removed < 49 || d.Removed > 51 {
		t.Errorf("want half of the input removed: %+v", d)
	}
}
