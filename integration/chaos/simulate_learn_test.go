//go:build simulation && chaos && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// learner learns readouts from labels of the predictions, and promotes them.
type learner struct {
	*guest
	every    time.Duration
	names    []string // of learned readouts, in the order of publication
	readouts map[string]*readout.Linear

	rounds, sequences int
}

const learnedPromotion = "promotion of a learned readout"

// addLearner adds a learner.
func (h *history) addLearner(rng *rand.Rand) error {
	if h.scenario.Classes != 0 || h.scenario.countHarms(resizing)+h.scenario.countHarms(trims) > 0 {
		return nil // labels are of three classes, a promotion is of the partitions at its time, and a trim removes labeled samples
	}
	v := &learner{every: time.Duration(1000+rng.IntN(5000)) * time.Millisecond, readouts: map[string]*readout.Linear{}}
	v.guest = h.newGuest("learner", func(l *life) error { return h.learn(l, v) }, func(error) bool { return true })
	v.disk = watchDisk(v.folder(0))
	v.disk.keeps = true
	h.learner = v
	return nil
}

// learnJob returns the job for a process.
func (h *history) learnJob(l *life) *pipeline.Job {
	job := h.job
	m := *job.Model
	m.Readouts = m.Readouts[:1]
	job.Model, job.Log, job.NewEngine = &m, l.log, newEngine
	job.Dial = func(_ context.Context, name string) (*nats.Conn, error) {
		return nats.Connect("", append(natsclient.LongLived(name, l.log), nats.InProcessServer(l.cable))...)
	}
	return &job
}

// learn is a process of the learner.
func (h *history) learn(l *life, v *learner) error {
	store, err := learn.Open(l.dir)
	if err != nil {
		return err
	}
	defer store.Close()
	nc, err := l.dial()
	if err != nil {
		return nil
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for {
		if err := h.learnAndPromote(l, v, js, store); err != nil && l.ctx.Err() == nil {
			return err
		}
		select {
		case <-l.ctx.Done():
			return nil
		case <-time.After(v.every):
		}
	}
}

// learnAndPromote learns from all labels, and promotes the readout.
func (h *history) learnAndPromote(l *life, v *learner, js jetstream.JetStream, store *learn.Store) error {
	_, m, err := learnRound(l.ctx, js, h.learnJob(l), store)
	if err != nil || m == nil || m.Readouts[0].Columns() != h.job.Model.Readouts[0].Columns() {
		return err
	}
	v.rounds++
	models, err := registry.Open(l.ctx, js, job)
	if err != nil {
		return err
	}
	e, _, err := models.Publish(l.ctx, m, "chaos.safetensors", "", registry.Lineage{})
	if err != nil {
		return err
	}
	if v.readouts[e.Fingerprint] == nil {
		v.readouts[e.Fingerprint] = m.Readouts[0]
		v.names = append(v.names, e.Fingerprint)
	}
	p, err := operate.Promote(l.ctx, js, job, operate.PromoteOptions{Readout: e.Fingerprint, Who: "learn"})
	l.log.Info("promoted", "readout", e.Fingerprint, "number", p.Number, "err", err)
	if err == nil {
		h.world.count(learnedPromotion)
	}
	return nil // refused: it answers already, or the job is changed
}

// learnRound reads the labels and the log, and fits a readout; nil if there are too few labels, or
// their sequences are equal.
func learnRound(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, store *learn.Store) (j learn.JoinResult, m *reservoir.Model, err error) {
	book, err := learn.ReadLabels(ctx, js, job.Config.Job)
	if err != nil {
		return j, nil, err
	}
	if _, err := (learn.Pass{Job: job, JS: js}).Run(ctx, store, book); err != nil {
		return j, nil, err
	}
	j = learn.JoinLabels(store, book, job.Model.Policy, nil)
	classes := slices.Sorted(maps.Keys(j.Report.Classes))
	if len(classes) < 2 {
		return j, nil, nil
	}
	k := bridge.Sequences{
		Name: "labels", Fingerprint: fmt.Sprint(book.Last), Streams: len(j.Report.Streams), Classes: classes,
		Features: func(i int, row []float32) error { return store.ReadFeatures(&j.Examples[i].Entry, row) },
	}
	for _, x := range j.Examples {
		class, _ := slices.BinarySearch(classes, x.Class)
		k.Sequences = append(k.Sequences, bridge.Sequence{Class: class, Group: x.Group, Samples: x.Samples, Rows: int(x.Rows), Labeled: x.Labeled})
	}
	m, _, err = bridge.Update(ctx, job.Model, k, offline.RetrainOptions{Readout: job.Model.Readouts[0].Name}, nil)
	if errors.Is(err, fit.ErrConstant) { // of the first few sequences
		return j, nil, nil
	}
	return j, m, err
}

// labelOutput labels predictions during the load.
func (h *history) labelOutput(ctx context.Context, js jetstream.JetStream) error {
	if err := retryRequest(ctx, func(ctx context.Context) error { return labels.Open(ctx, js, job) }); err != nil {
		return err
	}
	for end := time.Now().Add(h.scenario.Load); time.Now().Before(end); time.Sleep(time.Second) {
		if err := h.labelPredictions(ctx, js, nil); err != nil {
			return err
		}
	}
	return nil
}

// endLearner ends the learner, and adds its readouts to the truth.
func (h *history) endLearner() error {
	v := h.learner
	if v == nil {
		return nil
	}
	if err := v.end(); err != nil {
		h.fail("the learner ended: %v", err)
	}
	m := *h.truth.model
	m.Readouts = slices.Clone(m.Readouts)
	for _, name := range v.names {
		h.truth.readouts.names = append(h.truth.readouts.names, name)
		m.Readouts = append(m.Readouts, v.readouts[name])
	}
	h.truth.model = &m
	return h.truth.engine.SetReadouts(m.Readouts)
}

// compareLearner labels the remaining predictions, and expects that the store of the learner
// has used each label once, and gives the readout of a new store.
func (h *history) compareLearner(ctx context.Context, js jetstream.JetStream) error {
	v := h.learner
	if err := h.labelPredictions(ctx, js, nil); err != nil {
		return err
	}
	want := h.expectedLearned()
	v.sequences = want.Sequences
	var weights [2][]float32
	l := &life{guest: v.guest, log: h.world.log, cable: h.world.safeCable("learner")}
	for i, dir := range []string{v.folder(v.lives), filepath.Join(h.world.dir, "afresh")} {
		store, err := learn.Open(dir)
		if err != nil {
			return err
		}
		j, m, err := learnRound(ctx, js, h.learnJob(l), store)
		store.Close()
		if err != nil {
			return err
		}
		got := learned{j.Report.Used, j.Report.Sequences, j.Report.Classes, j.Report.Streams}
		if !got.equals(want) {
			h.fail("learn, store %s: %+v, want %+v", dir, got, want)
			return nil
		}
		if m != nil {
			weights[i] = slices.Concat(m.Readouts[0].Center, m.Readouts[0].Weights, m.Readouts[0].Intercept)
		}
	}
	if !slices.Equal(weights[0], weights[1]) {
		return errors.New("learn has another readout than with a new store")
	}
	return nil
}
