package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// subjectForms are input subjects with keys of each, including keys equal without the
// dots, and keys with the beginning of another key.
var subjectForms = map[string][]string{
	"sensors.*": {"A", "A3", "A37"},
	"plant.{site}.line.{line}.sensor.{sensor}": {"A.3.7", "A3.7.x", "A.37.x", "B.3.7", "eusn.in.0"},
	"plant.*.temperature":                      {"oven", "mill", "in"},
	"plant.>":                                  {"A", "A.3", "A.3.7", "A.line.3.sensor.7", "A3.7"},
	"plant.{site}.line.>":                      {"A.3", "A.3.7", "A3.7", "B.sensor.7"},
	"press.*.vibration mill.{line}.> hall":     {"press.3.vibration", "mill.A.motor", "mill.A.motor.7", "hall"},
}

// fullSubject returns the subject of a key, from the pattern's text only.
func fullSubject(pattern, key string) string {
	if strings.Contains(pattern, " ") {
		return key
	}
	tokens, values := strings.Split(pattern, "."), strings.Split(key, ".")
	for i, tok := range tokens {
		switch {
		case tok == ">":
			tokens[i], values = strings.Join(values, "."), nil
		case tok == "*" || tok[0] == '{':
			tokens[i], values = values[0], values[1:]
		}
	}
	return strings.Join(tokens, ".")
}

// Plain clients publish on the subjects of a plant. Workers are killed and take over.
// Predictions equal an engine fed directly, bit for bit, under separate keys; a rebuilt
// state has the recorded digest; a resent dead letter returns on its subject; a
// backfill gives the same predictions.
func TestInputSubjects(t *testing.T) {
	for pattern, keys := range subjectForms {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Ranged(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 5}))
			streams := pipelinetest.Recordings(len(keys), 60)
			for i, key := range keys {
				streams[i].Name = key
			}
			packets, sent := pipelinetest.Mixed(streams, 21)
			packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(4, 2)))
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			c := quickConfig("plants", 4)
			c.InputSubject = pattern
			bad := pipelinetest.Packet{Key: keys[1], Raw: []byte("garbage")}
			publish := func(packets ...pipelinetest.Packet) {
				t.Helper()
				for _, p := range packets {
					if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: fullSubject(pattern, p.Key), Header: p.Headers(), Data: p.Payload(t)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for i := range 4 {
				r := b.startStage(m, c)
				publish(packets[i*len(packets)/4 : (i+1)*len(packets)/4]...)
				if i < 3 {
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
					r.crashStage(t)
					b.expireMembers(c.Job)
					continue
				}
				got := b.awaitPredictions(c.Job, count(exp))
				publish(bad)
				r.waitUntil(t, "a dead letter", func(s pipeline.Stats) bool { return s.DeadLetters == 1 && s.Lag == 0 })
				r.stopStage(t)
				same(t, clean(got, outcome.FlagReordered), exp)
			}
			b.verifyAll(m, c)
			b.sendAgain(c.Job, fullSubject(pattern, bad.Key), bad.Key)

			// Another number of partitions: every stream continues at its position.
			b.resizeJob(m, c, 7)
			c.Partitions = 7
			again, _ := pipelinetest.Mixed(streams, 5)
			for i := range again {
				again[i].Header = map[string]string{wire.HeaderIncarnation: "2"}
			}
			r := b.startStage(m, c)
			publish(again...)
			b.awaitPredictions(c.Job, 2*count(exp))
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
			r.stopStage(t)
			b.verifyAll(m, c)
			raw, err := operate.Snapshot(t.Context(), b.js, c.Job, b.partitionOf(c.Job, keys[0]))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = operate.CheckImport(pipeline.Config{Partitions: 7, InputSubject: pattern}, raw)
			_, _, other := operate.CheckImport(pipeline.Config{Partitions: 7, InputSubject: "other.*.a.*.b.*.c.*"}, raw)
			if err != nil || other == nil || !strings.Contains(other.Error(), "of a job with other keys") {
				t.Errorf("import into the same subject: %v; into another: %v", err, other)
			}
		})
	}
}

// partitionOf returns a key's partition by an independent computation.
func (b *rig) partitionOf(job, key string) int {
	b.t.Helper()
	j, err := admin.Open(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	return j.PartitionOf(key)
}

// verifyAll rebuilds every partition from outside.
func (b *rig) verifyAll(m *reservoir.Model, c pipeline.Config) {
	b.t.Helper()
	replayed := uint64(0)
	for p := range c.Partitions {
		v, err := replay.Verify(b.t.Context(), b.js, &pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic}, p)
		if err != nil || v.Digest != v.Recorded && v.InSeq > 0 {
			b.t.Errorf("partition %d: %+v, %v", p, v, err)
		}
		replayed += v.InSeq
	}
	if replayed == 0 {
		b.t.Error("no partition has read anything")
	}
}

// sendAgain resends a job's single dead letter to the original subject.
func (b *rig) sendAgain(job, subject, key string) {
	b.t.Helper()
	heard, err := b.nc.SubscribeSync(subject)
	if err != nil {
		b.t.Fatal(err)
	}
	j, err := admin.Open(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	var all []admin.Letter
	err = j.DeadLetters(b.t.Context(), admin.LetterFilter{Key: key}, func(d admin.Letter) error { all = append(all, d); return nil })
	if err != nil || len(all) != 1 || !strings.HasSuffix(all[0].Subject, "."+key) {
		b.t.Fatalf("dead letters %+v, %v", all, err)
	}
	d, err := j.DeadLetter(b.t.Context(), all[0].Seq)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := j.Replay(b.t.Context(), d); err != nil {
		b.t.Fatal(err)
	}
	m, err := heard.NextMsg(patience)
	if err != nil || string(m.Data) != string(d.Data) || m.Header.Get(wire.HeaderDead) == "" {
		b.t.Errorf("sent again: %+v, %v", m, err)
	}
}

// The streams of a plant fall silent: their sequences end, with a prediction, in every
// partition; a replay without a clock gives the same states. A message of several
// streams under one key adds a level.
func TestIdleUnderPlantSubjects(t *testing.T) {
	for _, pattern := range []string{"plant.*.line.*.sensor.*", "plant.{site}.>", "A.0.* A.1.> B.{row}.0.x A.2.{n} A.box.0"} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
			b := newRig(t)
			c := quickConfig("silent", 4)
			c.InputSubject, c.Idle = pattern, 300*time.Millisecond
			r := b.startStage(m, c)
			want := map[string]bool{}
			publish := func(key string, p pipelinetest.Packet) {
				t.Helper()
				if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: fullSubject(pattern, key), Header: p.Headers(), Data: p.Payload(t)}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 12 {
				key := fmt.Sprintf("A.%d.%d", i/4, i%4)
				publish(key, pipelinetest.One(key, 1, 3, float32(i), false))
				want[key] = true
			}
			publish("A.box.0", pipelinetest.Crowd(3))
			for _, id := range []string{"id0", "id1", "id2"} {
				want[id] = true
			}
			got := b.awaitPredictions(c.Job, len(want))
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
			r.stopStage(t)
			for name := range want {
				if ps := got[name]; len(ps) != 1 || ps[0].Flags&outcome.FlagIdle == 0 {
					t.Errorf("stream %s: %+v", name, ps)
				}
			}
			sums := b.finalDigests(c.Job, 4)
			b.forgetOutput(c.Job)
			c.Idle = 0
			r = b.startStage(m, c)
			same(t, b.awaitPredictions(c.Job, len(want)), got)
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
			r.stopStage(t)
			if again := b.finalDigests(c.Job, 4); !slices.Equal(again, sums) {
				t.Errorf("final states %v, before %v", again, sums)
			}
		})
	}
}

// A job keeps its input subject, for any names of the wildcards; and no other job may
// use any of its subjects.
func TestInputSubjectIsTheJobs(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	run := func(job, subject string) error {
		s := pipeline.Worker{Job: pipeline.Job{Config: pipeline.Config{Job: job, Partitions: 2, InputSubject: subject}, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return s.Run(ctx)
	}
	c := pipeline.Config{Job: "first", Partitions: 2, InputSubject: "plant.{site}.line.{line}"}
	b.startStage(m, c).stopStage(t)
	c.InputSubject = "plant.*.line.{l}"
	b.startStage(m, c).stopStage(t)
	for _, other := range []string{"plant.*.line.>", "plant.*.*.*", "plant.A.line.*", "plant.>"} {
		mentions(t, run("first", other), "FIRST-IN", "has subjects [plant.*.line.*]", "use its subjects or another job name")
		mentions(t, run("second", other), "SECOND-IN", "overlap", "each job an input subject of its own")
	}
	mentions(t, run("plant", "plant.>"), `input subject "plant.>" takes subjects of the job's own`, "another job name")
	c.Job, c.InputSubject = "apart", "plants.*.line.>"
	b.startStage(m, c).stopStage(t)

	c.Job, c.InputSubject = "both", "press.*.v mill.>"
	b.startStage(m, c).stopStage(t)
	c.InputSubject = "mill.>  press.{press}.v"
	b.startStage(m, c).stopStage(t)
	for _, other := range []string{"press.*.v", "mill.>", "press.*.v mill.> hall", "press.*.* mill.>"} {
		mentions(t, run("both", other), "BOTH-IN", "has subjects [mill.> press.*.v eusn-idle-", "use its subjects or another job name")
	}
	mentions(t, run("third", "hall mill.A.x"), "THIRD-IN", "overlap", "each job an input subject of its own")
	mentions(t, run("third", "hall.* hall.>"), `"hall.>" overlaps with hall.*`)
}
