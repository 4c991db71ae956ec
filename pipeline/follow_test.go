package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// forgetRegistry deletes a job's registry, if present.
func (b *rig) forgetRegistry(job string) {
	b.t.Helper()
	if err := b.js.DeleteStream(context.Background(), wire.ModelStream(job)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		b.t.Fatal(err)
	}
}

// A worker with another readout, other training ranges or another rate uses the job's
// model: every prediction equals the prediction of the job's first worker, bit for bit
// and with its flags, before and after a restart, and the log reports it once.
func TestWorkersFollowTheJob(t *testing.T) {
	m, _, retrained := twoModels(t)
	ranges := pipelinetest.Model(t, 3, m.Policy)
	ranges.Training.Inputs = pipelinetest.Ranged(pipelinetest.Model(t, 3, m.Policy)).Training.Inputs
	followers := []*reservoir.Model{retrained, ranges, pipelinetest.Timed(pipelinetest.Model(t, 3, m.Policy))}
	streams := pipelinetest.Recordings(8, 40)
	packets, sent := pipelinetest.Mixed(streams, 3)
	want := direct(t, m, streams, sent)
	b, book := newLoggedRig(t)
	c := quickConfig("followed", 4)
	part := len(packets) / 4
	own := b.startStage(m, c)
	b.publishPackets(packets[:part])
	b.settleMessages(own, part)
	if book.Lines("another readout") > 0 {
		t.Errorf("the job's own worker follows:\n%s", book)
	}
	own.stopStage(t)
	for i, other := range followers {
		r := b.startStage(other, c)
		last := (i + 2) * part
		if i == len(followers)-1 {
			last = len(packets)
		}
		b.publishPackets(packets[(i+1)*part : last])
		b.settleMessages(r, last)
		if i == len(followers)-1 {
			r.crashStage(t)
			b.expireMembers(c.Job)
		} else {
			r.stopStage(t)
		}
	}
	b.startStage(m, c).stopStage(t)
	same(t, b.awaitPredictions(c.Job, count(want)), want)
	jobs, err := registry.Fingerprint(m, m.Readouts[0])
	if err != nil {
		t.Fatal(err)
	}
	if book.Lines("another readout") != len(followers) || !strings.Contains(book.String(), "job_model=test-model job_readout="+jobs) {
		t.Errorf("the log says\n%s", book)
	}
	for p := range c.Partitions {
		if raw, r := b.lastRecord(c.Job, p); r.Readout != jobs || raw == nil {
			t.Errorf("the record of partition %d names readout %s, want %s", p, r.Readout, jobs)
		}
	}
	models, err := registry.Open(t.Context(), b.js, c.Job)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := models.List(t.Context()); err != nil || len(all) != 1 || all[0].Fingerprint != jobs {
		t.Errorf("the registry has %+v, %v: want the job's model alone", all, err)
	}
}

// Two workers that begin a job at the same time with different readouts predict with a
// single readout, named in the job's entry.
func TestReadoutsRaceForANewJob(t *testing.T) {
	m, _, retrained := twoModels(t)
	byPrint := map[string]*reservoir.Model{}
	for _, model := range []*reservoir.Model{m, retrained} {
		print, err := registry.Fingerprint(model, model.Readouts[0])
		if err != nil {
			t.Fatal(err)
		}
		byPrint[print] = model
	}
	streams := pipelinetest.Recordings(6, 24)
	packets, sent := pipelinetest.Mixed(streams, 3)
	b := newRig(t)
	for round := range 3 {
		c := quickConfig(fmt.Sprint("readouts", round), 4)
		c.InputSubject = c.Job + ".*"
		began := make(chan *running, 2)
		for _, model := range []*reservoir.Model{m, retrained} {
			go func() {
				var r *running
				defer func() { began <- r }() // even if it does not start
				r = b.launchStage(model, c, pipelinetest.Generic)
			}()
		}
		one, other := <-began, <-began
		if one == nil || other == nil {
			t.Fatal("a worker did not begin")
		}
		b.publishOn(c.Job+".", packets...)
		out, err := b.js.Stream(t.Context(), wire.OutputStream(c.Job))
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := store.ReadEntry(t.Context(), out, c.Job)
		if err != nil || byPrint[e.Readout] == nil {
			t.Fatalf("the job runs %q, %v", e.Readout, err)
		}
		want := direct(t, byPrint[e.Readout], streams, sent)
		got := b.awaitPredictions(c.Job, count(want))
		one.stopStage(t)
		other.stopStage(t)
		same(t, got, want)
	}
}

// A job of a program without a registry gets a registry with the next worker; then
// other workers can follow. A job with JSON input is also followed.
func TestOlderJobsAreFollowed(t *testing.T) {
	m, network, retrained := twoModels(t)
	b := newRig(t)
	c := quickConfig("older", 2)
	c.Input = formats.Input{Format: formats.JSON}
	b.startStage(m, c).stopStage(t)
	b.forgetRegistry(c.Job)
	b.refusedFor(t, retrained, c, "readout", "publish the job's model")
	b.startStage(m, c).stopStage(t)
	b.startStage(retrained, c).stopStage(t)
	b.refusedFor(t, network, c, "network")
	// Without the job's first worker, any owner of the model can publish it.
	b.forgetRegistry(c.Job)
	models, err := registry.Make(t.Context(), b.js, c.Job)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := models.Publish(t.Context(), m, "found.safetensors", "", registry.Lineage{Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	b.startStage(retrained, c).stopStage(t)
}

// A worker does not guess: if the job's model in the registry is damaged, or another
// model has its name, the worker is refused and nothing is claimed.
func TestDamagedModelIsNotFollowed(t *testing.T) {
	m, _, retrained := twoModels(t)
	b := newRig(t)
	c := quickConfig("hurtmodel", 2)
	b.startStage(m, c).stopStage(t)
	bucket, err := b.js.ObjectStore(t.Context(), wire.ModelBucket(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	print, err := registry.Fingerprint(m, m.Readouts[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := bucket.GetInfo(t.Context(), print)
	if err != nil {
		t.Fatal(err)
	}
	file, err := retrained.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), jetstream.ObjectMeta{Name: print, Metadata: info.Metadata}, strings.NewReader(string(file))); err != nil {
		t.Fatal(err)
	}
	counters := new(pipeline.Counters)
	err = (&pipeline.Worker{Job: pipeline.Job{Config: c, Model: retrained, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}, Counters: counters}).Run(t.Context())
	if !errors.Is(err, pipeline.ErrOtherModel) || !errors.Is(err, registry.ErrDamaged) || counters.Stats().Claims != 0 {
		t.Errorf("%v, %d claims", err, counters.Stats().Claims)
	}
	mentions(t, err, print, "publish the same model")
	b.startStage(m, c).stopStage(t) // which repairs the entry
	b.startStage(retrained, c).stopStage(t)
}

// A job runs even if no worker may create its registry.
func TestJobWithoutARegistry(t *testing.T) {
	t.Parallel()
	addr := startConfigured(t, `accounts { A { jetstream { max_file: 1G, max_streams: 6 }, users: [{user: u, password: u}] } }`)
	book := &pipelinetest.LogBook{}
	b := rigAs(t, addr, "u", book)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	c := quickConfig("without", 2)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 6, 1, true)})
	b.awaitPredictions(c.Job, 1)
	r.stopStage(t)
	if book.Lines("cannot be stored in the job's registry") != 1 || !strings.Contains(book.String(), "a job needs 7 NATS streams") {
		t.Errorf("the log says\n%s", book)
	}
}
