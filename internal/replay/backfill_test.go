package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// backfillPolicies has every policy, with early predictions if the policy uses them.
var backfillPolicies = map[string]reservoir.Policy{
	"marked":  {Kind: reservoir.Marked, Early: 3},
	"window":  {Kind: reservoir.Window, Length: 10, Hop: 2},
	"count":   {Kind: reservoir.Count, Length: 7},
	"gap":     {Kind: reservoir.Gap, Gap: 5 * time.Millisecond},
	"endless": {Kind: reservoir.Endless, Early: 9},
}

// backfillTo is a backfill with a line of JSON per prediction.
func backfillTo(path string) Backfill {
	return Backfill{Out: path, LeadIn: -1, Range: "as asked", Line: func(dst []byte, p BackfillPrediction) ([]byte, error) {
		line, err := json.Marshal(p)
		return append(append(dst, line...), '\n'), err
	}}
}

// backfilled reads the output of a backfill, per stream in order.
func backfilled(t testing.TB, path string) map[string][]codec.Prediction {
	t.Helper()
	all := map[string][]codec.Prediction{}
	for line := range bytes.Lines(bytesOf(t, path)) {
		var p BackfillPrediction
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		all[p.Stream] = append(all[p.Stream], p.Prediction)
	}
	return all
}

func bytesOf(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// backfiller is a stage that only runs Backfill, in small batches.
func (b *rig) backfiller(m *reservoir.Model, c pipeline.Config) *pipeline.Job {
	c.RowBudget = 40
	return b.job(m, c)
}

func (b *rig) backfill(m *reservoir.Model, c pipeline.Config, o Backfill) BackfillDone {
	b.t.Helper()
	d, err := WriteBackfill(b.t.Context(), b.backfiller(m, c), o)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, left := range []string{".part", ".position"} {
		if _, err := os.Stat(o.Out + left); !errors.Is(err, fs.ErrNotExist) {
			b.t.Errorf("%s is left: %v", left, err)
		}
	}
	return d
}

// since removes earlier predictions.
func since(all, before map[string][]codec.Prediction) map[string][]codec.Prediction {
	rest := map[string][]codec.Prediction{}
	for stream, ps := range all {
		if n := len(before[stream]); len(ps) > n {
			rest[stream] = ps[n:]
		}
	}
	return rest
}

// errKilled ends a backfill as a kill does: without storing anything.
var errKilled = errors.New("killed")

// killedAt runs a backfill and kills it after some batches.
func killedAt(s *pipeline.Job, o Backfill, batches int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != errKilled {
				panic(p)
			}
			err = errKilled
		}
	}()
	o.Progress = func(BackfillDone) {
		if batches--; batches == 0 {
			panic(errKilled)
		}
	}
	_, err = WriteBackfill(context.Background(), s, o)
	return err
}

// Backfills of all and of a part of the log of a stage under load, killed and interrupted many times: each prediction
// has the bits of the live prediction, none is lost or doubled, the file has the bytes of an undisturbed backfill,
// and the stage's predictions and states are those of a stage without a backfill.
func TestBackfill(t *testing.T) {
	policies := maps.Clone(backfillPolicies)
	policies["marked front end"], policies["window front end"] = policies["marked"], policies["window"]
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := pipelinetest.Recordings(12, 90)
			packets, sent := pipelinetest.Mixed(streams, 5)
			packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(4, 2)))
			m := pipelinetest.Timed(pipelinetest.Ranged(pipelinetest.Model(t, 3, policy)))
			if strings.HasSuffix(name, "front end") {
				m = pipelinetest.Fronted(m)
			}
			want := pipelinetest.Direct(t, m, streams, sent)
			first, second := packets[:len(packets)/3], packets[len(packets)/3:2*len(packets)/3]
			rest := packets[2*len(packets)/3:]
			c := quick("live", 4)
			c.StopTimeout = pipelinetest.Patience // digests are of partitions that were released, however slow the machine

			b := newRig(t)
			r := b.start(m, c)
			b.publish(first)
			b.settle(r, len(first))
			before := b.predictions(c.Job)
			time.Sleep(5 * time.Millisecond)
			from := time.Now()
			b.publish(second)
			b.settle(r, len(first)+len(second))
			until := b.predictions(c.Job)

			dir := t.TempDir()
			all, part, calm := backfillTo(filepath.Join(dir, "all")), backfillTo(filepath.Join(dir, "part")), backfillTo(filepath.Join(dir, "calm"))
			all.every = -1
			part.From, part.every = from, time.Hour // a killed backfill restarts from the beginning
			// The log grows during the reading, and each attempt sees more messages.
			all.To = time.Now().Add(time.Millisecond)
			part.To, calm.To = all.To, all.To
			time.Sleep(5 * time.Millisecond)
			b.meanwhile(rest, func() {
				s, rng := b.backfiller(m, c), rand.New(rand.NewPCG(1, 1))
				kills := 0
				for killedAt(s, all, 1+rng.IntN(4)) == errKilled {
					kills++
				}
				for n := range 3 {
					if err := killedAt(s, part, 1+n); err != errKilled {
						t.Errorf("a backfill of a few batches ends with %v", err)
					}
				}
				if kills < 5 {
					t.Errorf("%d kills, want some", kills)
				}
				// Ctrl-C keeps the work done.
				ctx, stop := context.WithCancel(t.Context())
				part.Progress = func(BackfillDone) { stop() }
				d, err := WriteBackfill(ctx, s, part)
				if !errors.Is(err, context.Canceled) || d.Before+d.Messages == 0 {
					t.Errorf("interrupted: %+v, %v", d, err)
				}
				again := false
				part.Progress, part.Begun = nil, func(p BackfillPlan) { again = p.Again }
				if b.backfill(m, c, part); !again {
					t.Error("what was interrupted begins again")
				}
			})
			if d := b.backfill(m, c, calm); int(d.Predictions) != pipelinetest.Count(until) || d.Unusable+d.Removed > 0 {
				t.Errorf("a backfill did %+v, want %d predictions", d, pipelinetest.Count(until))
			}
			pipelinetest.Same(t, backfilled(t, all.Out), until)
			if !bytes.Equal(bytesOf(t, all.Out), bytesOf(t, calm.Out)) {
				t.Error("killed and calm, the files differ")
			}
			pipelinetest.Same(t, backfilled(t, part.Out), since(until, before))

			got := b.await(c.Job, pipelinetest.Count(want))
			b.settle(r, len(packets))
			r.stop()
			pipelinetest.Same(t, pipelinetest.Clean(got, outcome.FlagReordered), pipelinetest.Clean(want, outcome.FlagReordered))
			undisturbed := newRig(t)
			undisturbed.answer(m, c, packets)
			if got, want := b.digests(c.Job, c.Partitions), undisturbed.digests(c.Job, c.Partitions); !slices.Equal(got, want) {
				t.Errorf("the states are %q beside backfills, and without %q", got, want)
			}
		})
	}
}

// Sequences ended by silence, and keys with a changed partition, get their live predictions.
func TestBackfillBehindResize(t *testing.T) {
	t.Parallel()
	m, b, c := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), newRig(t), quick("moved", 3)
	c.Idle = 300 * time.Millisecond
	n := 0
	for _, to := range []int{5, 2, 2} {
		r := b.start(m, c)
		for k := range 9 {
			b.publish([]pipelinetest.Packet{pipelinetest.One("k"+string(rune('a'+k)), uint64(n+1), 3, float32(k), k%3 == 0)})
		}
		if n++; n%2 == 1 { // else the sequences stay open, and go on in other partitions
			r.until("the end of all sequences", func(s pipeline.Stats) bool { return s.Idle > 0 && s.Slots == 0 && s.Lag == 0 })
		}
		r.stop()
		if to != c.Partitions {
			b.resize(m, c, to)
			c.Partitions = to
		}
	}
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	b.backfill(m, c, o)
	got, want := backfilled(t, o.Out), b.predictions(c.Job)
	pipelinetest.Same(t, got, want)
	if pipelinetest.Count(want) < 18 {
		t.Errorf("%d predictions, want more", pipelinetest.Count(want))
	}
}

// Keys of several tokens, from subjects with words between the tokens, get their live predictions, in any partition.
func TestBackfillOfSubjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ pattern, words string }{
		"words": {"plant.*.line.*", ".line."}, "rest": {"plant.>", "."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, b, conf := pipelinetest.Model(t, 3, backfillPolicies["marked"]), newRig(t), quick("plants", 3)
			conf.InputSubject = c.pattern
			b.subject = func(key string) string { return "plant." + strings.Replace(key, ".", c.words, 1) }
			sent := 0
			for seq, to := range []int{5, 5} {
				r := b.start(m, conf)
				for k := range 9 {
					sent++
					b.publish([]pipelinetest.Packet{pipelinetest.One("a.k"+string(rune('a'+k)), uint64(seq+1), 3, float32(k), seq == 1)})
				}
				b.await(conf.Job, sent)
				r.until("all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
				r.stop()
				if to != conf.Partitions {
					b.resize(m, conf, to)
					conf.Partitions = to
				}
			}
			o := backfillTo(filepath.Join(t.TempDir(), "out"))
			b.backfill(m, conf, o)
			pipelinetest.Same(t, backfilled(t, o.Out), b.predictions(conf.Job))
		})
	}
}

// If the reading begins in the middle of sequences, the first prediction of each stream is flagged, and later
// predictions are the live ones. Messages with numbers do not wait for earlier messages.
func TestBackfillFromTheMiddle(t *testing.T) {
	t.Parallel()
	m, b, c := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), newRig(t), quick("middle", 3)
	r := b.start(m, c)
	send := func(seq uint64, end bool) {
		for _, key := range []string{"a", "b", "c", "d"} {
			b.publish([]pipelinetest.Packet{pipelinetest.One(key, seq, 4, float32(seq), end)})
		}
		b.publish([]pipelinetest.Packet{pipelinetest.One("bare", 0, 4, float32(seq), end)}) // its producer does not number
	}
	send(1, true)
	send(2, false)
	b.settle(r, 10)
	time.Sleep(5 * time.Millisecond)
	from := time.Now()
	send(3, true)
	send(4, false)
	send(5, true)
	b.settle(r, 25)
	live := b.predictions(c.Job)
	r.stop()

	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	o.From, o.LeadIn = from, 0
	b.backfill(m, c, o)
	got := backfilled(t, o.Out)
	for stream, ps := range live {
		if len(got[stream]) != 2 || got[stream][0].Flags&outcome.FlagGap == 0 || pipelinetest.SameBits(got[stream][0].Scores, ps[1].Scores) {
			t.Errorf("stream %s: %+v, want two predictions, the first of a part of a sequence, with the flag gap", stream, got[stream])
			continue
		}
		pipelinetest.Same(t, map[string][]codec.Prediction{stream: got[stream][1:]}, map[string][]codec.Prediction{stream: ps[2:]})
	}

	endless := backfillTo(filepath.Join(t.TempDir(), "out"))
	endless.From, endless.LeadIn = from, 0
	_, err := WriteBackfill(t.Context(), b.backfiller(pipelinetest.Model(t, 3, backfillPolicies["endless"]), c), endless)
	pipelinetest.Mentions(t, err, "endless", "since its stream began")
	nothingLeft(t, endless.Out)
}

func nothingLeft(t testing.TB, path string) {
	t.Helper()
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// A newer model than the job's predicts the job's messages.
func TestBackfillWithAnotherModel(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(5, 40)
	packets, sent := pipelinetest.Mixed(streams, 3)
	b, c := newRig(t), quick("newer", 2)
	b.answer(pipelinetest.Model(t, 3, backfillPolicies["marked"]), c, packets)
	m := pipelinetest.Bank(t, 2, 5, 4, backfillPolicies["count"])
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	jobs := true
	o.Begun = func(p BackfillPlan) { jobs = p.JobModel }
	b.backfill(m, c, o)
	if pipelinetest.Same(t, backfilled(t, o.Out), pipelinetest.Direct(t, m, streams, sent)); jobs {
		t.Error("the model passes for the job's")
	}
}

// Invalid ranges are refused.
func TestBackfillRanges(t *testing.T) {
	t.Parallel()
	m, b, c := pipelinetest.Model(t, 3, backfillPolicies["marked"]), newRig(t), quick("ranges", 2)
	try := func(change func(o *Backfill, c *pipeline.Config)) error {
		o, c := backfillTo(filepath.Join(t.TempDir(), "out")), c
		change(&o, &c)
		_, err := WriteBackfill(t.Context(), b.backfiller(m, c), o)
		if err != nil {
			nothingLeft(t, o.Out)
		}
		return err
	}
	none := func(*Backfill, *pipeline.Config) {}
	if err := try(none); err == nil {
		t.Error("there is no job, and no error")
	} else {
		pipelinetest.Mentions(t, err, "no job", "ranges")
	}
	r := b.start(m, c)
	pipelinetest.Mentions(t, try(none), "holds no message")
	var packets []pipelinetest.Packet
	for seq := range uint64(10) {
		packets = append(packets, pipelinetest.One("a", seq+1, 3, 1, true))
	}
	b.publish(packets)
	b.settle(r, len(packets))
	begin := time.Now()
	pipelinetest.Mentions(t, try(func(o *Backfill, _ *pipeline.Config) { o.From = begin.Add(time.Hour) }), "no message was stored from", "until now")
	pipelinetest.Mentions(t, try(func(o *Backfill, _ *pipeline.Config) { o.To = begin.Add(-time.Hour) }), "no message was stored")
	if err := try(func(o *Backfill, _ *pipeline.Config) { o.From = begin.Add(-time.Hour) }); err != nil { // the log is whole
		t.Error(err)
	}
	b.must(wire.InputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error {
		return s.Purge(ctx, jetstream.WithPurgeSequence(5))
	})
	pipelinetest.Mentions(t, try(func(o *Backfill, _ *pipeline.Config) { o.From = begin.Add(-time.Hour) }), "begins with message 5", "was removed")
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	b.backfill(m, c, o)
	if got := backfilled(t, o.Out)["a"]; len(got) != 6 || got[0].Flags&outcome.FlagGap == 0 || got[1].Flags != 0 {
		t.Errorf("of a log whose beginning is gone: %+v", got)
	}
	r.stop()
}

// Messages removed from the log before their reading are reported and flagged, and nothing waits for these messages.
func TestBackfillOvertaken(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]uint64{"some": 60, "all": 200} {
		m, b, c := pipelinetest.Model(t, 3, backfillPolicies["marked"]), newRig(t), quick("late", 1)
		r := b.start(m, c)
		for range 100 {
			b.publish([]pipelinetest.Packet{pipelinetest.One("a", 0, 3, 1, true)})
		}
		b.settle(r, 100)
		o := backfillTo(filepath.Join(t.TempDir(), "out"))
		o.every = -1
		if err := killedAt(b.backfiller(m, c), o, 3); err != errKilled {
			t.Fatal(err)
		}
		b.must(wire.InputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error {
			return s.Purge(ctx, jetstream.WithPurgeSequence(keep))
		})
		d := b.backfill(m, c, o)
		got := backfilled(t, o.Out)["a"]
		flagged := 0
		for _, p := range got {
			if p.Flags&outcome.FlagGap != 0 {
				flagged++
			}
		}
		if d.Removed < 10 || int(d.Removed)+len(got) != 100 || name == "some" && flagged != 1 {
			t.Errorf("%s: %d predictions, %d flagged, did %+v", name, len(got), flagged, d)
		}
		r.stop()
	}
}

// A backfill does not continue with another log.
func TestBackfillOfAnotherLog(t *testing.T) {
	t.Parallel()
	m, b, c := pipelinetest.Model(t, 3, backfillPolicies["marked"]), newRig(t), quick("other", 1)
	fill := func() {
		r := b.start(m, c)
		for range 60 {
			b.publish([]pipelinetest.Packet{pipelinetest.One("a", 0, 3, 1, true)})
		}
		b.settle(r, 60)
		r.stop()
	}
	fill()
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	o.every = -1
	if err := killedAt(b.backfiller(m, c), o, 3); err != errKilled {
		t.Fatal(err)
	}
	j, err := store.Open(t.Context(), b.js, c.Job)
	if err != nil {
		t.Fatal(err)
	}
	back := inlog.Log{Input: &store.Input{Stream: j.In, Job: c.Job, Pattern: j.Pattern}, JS: b.js}
	pipelinetest.Mentions(t, back.Open(t.Context(), inlog.Place{Seq: 9, Stored: 7}, 1, 60), "message 9", "other messages than before")
	// A stage recreates a job only if nothing remains of the job.
	for _, name := range []string{wire.InputStream(c.Job), wire.OutputStream(c.Job), wire.SnapshotStream(c.Job), wire.RowStream(c.Job), wire.DeadLetterStream(c.Job), wire.MemberStream(c.Job)} {
		if err := b.js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	_, err = WriteBackfill(t.Context(), b.backfiller(m, c), o)
	if !errors.Is(err, ErrOther) {
		t.Errorf("another log under the same name: %v", err)
	}
}

// given are messages from a slice.
type givenMessages struct{ left []pipelinetest.Packet }

func (g *givenMessages) Next() (string, map[string][]string, []byte, error) {
	if len(g.left) == 0 {
		return "", nil, nil, io.EOF
	}
	p := g.left[0]
	g.left = g.left[1:]
	return p.Key, p.Headers(), p.Raw, nil
}

// Without a server, messages of any origin are predicted, killed or not. Unusable messages are counted; a hundred
// unusable first messages end the backfill.
func TestBackfillOfMessages(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(6, 60)
	packets, sent := pipelinetest.Mixed(streams, 2)
	for i := range packets {
		packets[i].Raw = packets[i].Payload(t)
	}
	m := pipelinetest.Model(t, 3, backfillPolicies["gap"])
	c := pipeline.Config{RowBudget: 30, Input: formats.Input{Format: formats.JSON, Channels: map[string]string{"x": "a", "y": "b"}}} // the plant's present format
	s := &pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic}
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	o.every, o.Rate = -1, 1e6
	odd := pipelinetest.Packet{Key: "odd", Raw: []byte("no Arrow")}
	from := func(ps ...pipelinetest.Packet) {
		o.Messages = func() (BackfillMessages, error) { return &givenMessages{ps}, nil }
	}
	from(slices.Concat([]pipelinetest.Packet{odd}, packets)...)
	for killedAt(s, o, 2) == errKilled {
	}
	pipelinetest.Same(t, backfilled(t, o.Out), pipelinetest.Direct(t, m, streams, sent))
	_, err := WriteBackfill(t.Context(), s, o)
	if !errors.Is(err, ErrExists) {
		t.Errorf("again into the same file: %v", err)
	}
	o.Out += "2"
	from(slices.Repeat([]pipelinetest.Packet{odd}, 200)...)
	_, err = WriteBackfill(t.Context(), s, o)
	pipelinetest.Mentions(t, err, "none of the first", "can be used")
	if !errors.Is(err, ErrUnusable) {
		t.Errorf("%v is not known as ErrUnusable", err)
	}
	nothingLeft(t, o.Out)
}

// With a front end, incoming samples are counted and are bounded by the rate, also in a batch.
func TestBackfillCountsWhatComesIn(t *testing.T) {
	t.Parallel()
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(6, 60), 5)
	all, largest := 0, 0
	for i, p := range packets {
		all, largest = all+p.Batch.Rows, max(largest, p.Batch.Rows)
		packets[i].Raw = p.Payload(t)
	}
	m := pipelinetest.Fronted(pipelinetest.Model(t, 3, backfillPolicies["window"]))
	if m.Front.Decimate < 2 {
		t.Fatal("the front end takes no samples away")
	}
	o := backfillTo(filepath.Join(t.TempDir(), "out"))
	o.Messages = func() (BackfillMessages, error) { return &givenMessages{packets}, nil }
	o.Rate = 1000
	before, most := uint64(0), uint64(0)
	o.Progress = func(d BackfillDone) { before, most = d.Samples, max(most, d.Samples-before) }
	d, err := WriteBackfill(t.Context(), &pipeline.Job{Model: m, NewEngine: pipelinetest.Generic}, o)
	if err != nil {
		t.Fatal(err)
	}
	if tenth := uint64(o.Rate)/10 - 1 + uint64(largest); d.Samples != uint64(all) || most > tenth {
		t.Errorf("%d samples, at most %d in a batch; want %d, and at most %d, which is a tenth of a second's", d.Samples, most, all, tenth)
	}
	said, err := json.Marshal(d)
	if err != nil || bytes.Contains(said, []byte("All")) {
		t.Errorf("as JSON: %s, %v", said, err)
	}
}

// Messages with numbers, read only for the states, make no predictions, although these messages wait for earlier
// messages until a later message releases the waiting messages.
func TestBackfillLeadInIsSilent(t *testing.T) {
	t.Parallel()
	m, b, c := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), newRig(t), quick("lead-in", 3)
	c.Reorder = 4
	r := b.start(m, c)
	at := func(n int) int { return 3 * n }
	send := func(seq uint64) {
		for _, key := range []string{"a", "b"} {
			b.publish([]pipelinetest.Packet{pipelinetest.One(key, seq, 4, float32(seq), true)})
		}
		b.publish([]pipelinetest.Packet{pipelinetest.One("bare", 0, 4, float32(seq), true)})
	}
	send(1)
	b.settle(r, at(1))
	time.Sleep(5 * time.Millisecond)
	begin := time.Now()
	send(2)
	send(3)
	b.settle(r, at(3))
	time.Sleep(5 * time.Millisecond)
	from := time.Now()
	send(4)
	b.settle(r, at(4))
	few := time.Now()
	send(5)
	send(6)
	send(7)
	b.settle(r, at(7))
	live := b.predictions(c.Job)
	r.stop()
	for name, to := range map[string]time.Time{"released at the end": few, "released by a later message": {}} {
		o := backfillTo(filepath.Join(t.TempDir(), "out"))
		o.From, o.LeadIn, o.To = from, from.Sub(begin), to
		b.backfill(m, c, o)
		got := backfilled(t, o.Out)
		for stream, ps := range live {
			want := ps[3:]
			if !to.IsZero() {
				want = ps[3:4]
			}
			if len(got[stream]) != len(want) {
				t.Errorf("%s: stream %s has %d predictions, want %d", name, stream, len(got[stream]), len(want))
				for _, p := range got[stream] {
					t.Logf("  %+v", p)
				}
			}
		}
	}
}
