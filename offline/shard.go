package offline

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Shard is share I of N, from 1, of a training.
type Shard struct{ I, N int }

// A file of statistics is the result of one shard:
//
//	EUSNPART, uint32 version 1
//	uint32 length, JSON of shardJob: the same in all shards of a job
//	uint32 length, JSON of shardOwn
//	the output of fit.Learner.Encode
//	SHA-256 of all that
//
// all little-endian.
const (
	shardMagic   = "EUSNPART"
	shardVersion = 1
	maxShardJob  = 1 << 26
)

// shardJob is the data that must be the same in the shards of one job, and the metadata of the model.
type shardJob struct {
	Shards      int                    `json:"shards"`
	Report      RetrainReport          `json:"report"`
	Fingerprint string                 `json:"fingerprint"` // of the training part
	Channels    []string               `json:"channels"`
	Classes     []string               `json:"classes"`
	Spec        reservoir.Spec         `json:"spec"`
	Norm        reservoir.Norm         `json:"norm"`
	Inputs      []reservoir.InputRange `json:"inputs"`
	Policy      reservoir.Policy       `json:"policy"`
	Front       *reservoir.Front       `json:"front,omitempty"`
	Alphas      []float64              `json:"alphas"`
	RawFeatures bool                   `json:"raw_features"`
	RidgeOnly   bool                   `json:"ridge_only"`
	Readout     string                 `json:"readout"`
	Tool        string                 `json:"tool"`
}

// shardOwn is the data that differ between shards.
type shardOwn struct {
	Shard        int     `json:"shard"`
	Missing      int64   `json:"missing"`
	StateSeconds float64 `json:"state_seconds"`
}

// RetrainShard does one share of a training. The whole training part is read, because the constants of the input
// transform depend on all series. If features are clipped and too many to be kept, the whole part also runs through
// the network, because the limits depend on all series. Then RetrainShard runs its share of the series, neighbors in
// the archive, through the network, and writes the statistics for the learner to a file at path. The file is written
// whole or not at all. MergeShards makes the model from the files of all shards.
func RetrainShard(ctx context.Context, d *archive.Dataset, opt RetrainOptions, s Shard, path string, progress archive.Progress) (RetrainReport, error) {
	fail := func(err error) (RetrainReport, error) { return RetrainReport{}, err }
	if err := opt.checkShard(); err != nil {
		return fail(err)
	}
	opt = opt.withDefaults(len(d.Channels))
	src, unlabeled, err := trainingPart(d, nil)
	if err != nil {
		return fail(err)
	}
	t, err := newTraining(ctx, src, opt)
	if err != nil {
		return fail(err)
	}
	t.report.Unlabeled = unlabeled
	series := src.sampleSource.(*seriesSource).series
	if err := s.check(); err != nil {
		return fail(err)
	}
	first, last := len(series)*(s.I-1)/s.N, len(series)*s.I/s.N
	from, to := t.upTo(first), t.upTo(last)
	if from == to {
		return fail(fmt.Errorf("offline: shard %d of %d has none of the %d sequences that are learned from: take fewer shards", s.I, s.N, t.plan.points))
	}
	share := t.src
	share.sampleSource = &seriesSource{d: d, series: series[first:last]}
	pl, err := makePlan(ctx, share, opt.Policy, true, t.front, nil)
	if err != nil {
		return fail(err)
	}
	job, err := json.Marshal(t.shardJob(s.N))
	if err != nil {
		return fail(err)
	}
	l, err := t.learner(from, to)
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if opt.Planned != nil {
		opt.Planned(t.report)
	}
	p := l.Plan()
	p.SolveWork = 0
	work := pl.work
	if p.Passes > 1 {
		work += t.plan.work
	}
	cast := newForecast(progress, p, work, pl.points)
	if err := t.measure(ctx, l, cast); err != nil {
		return fail(err)
	}
	if err := t.feed(ctx, l, share.sampleSource, pl, cast); err != nil {
		return fail(err)
	}
	own, err := json.Marshal(shardOwn{s.I, t.report.Missing, t.report.StateSeconds})
	if err != nil {
		return fail(err)
	}
	return t.report, writeShard(path, job, own, l)
}

func (s Shard) check() error {
	if s.N < 1 || s.I < 1 || s.I > s.N {
		return fmt.Errorf("offline: shard %d of %d: want 1 of 1 or more", s.I, s.N)
	}
	return nil
}

// checkShard refuses options that learn from all sequences at once, or are missing in files of statistics.
func (opt *RetrainOptions) checkShard() error {
	if opt.Novelty != nil {
		return errors.New("offline: a shard of a training with a detector of what is new: that is learned from all sequences at once: train in one job")
	}
	if opt.Early != nil {
		return errors.New("offline: a shard of a training that decides early: when a prefix suffices is learned from all sequences at once: train in one job")
	}
	if opt.Groups != "" || opt.Parts != nil {
		return errors.New("offline: a shard of a training by groups: a group has sequences in several shards, and must be left out of all at once: train in one job")
	}
	if opt.Target != "" {
		return errors.New("offline: a shard of a training on numbers: files of statistics do not hold them: train in one job")
	}
	if opt.Segments != nil {
		return errors.New("offline: a shard of a training that compares segments with the network: the choice needs all sequences: train in one job, or without segments")
	}
	if opt.Coverage != 0 || opt.MaxError != 0 || opt.Priors.given() || opt.Weights.given() {
		return errors.New("offline: a shard of a training with coverage, a largest error, priors or class weights: files of statistics do not hold them: train in one job")
	}
	return nil
}

// upTo is how many examples the first streams have.
func (t *training) upTo(streams int) int {
	if streams == 0 {
		return 0
	}
	return t.plan.ends[streams-1]
}

func (t *training) shardJob(shards int) shardJob {
	return shardJob{
		Shards: shards, Report: t.report, Fingerprint: t.src.fingerprint(), Channels: t.src.channels, Classes: t.src.classes,
		Spec: t.opt.Spec, Norm: t.net.Norm, Inputs: t.inputs, Policy: t.opt.Policy, Front: t.front, Alphas: t.opt.Alphas,
		RawFeatures: t.opt.RawFeatures, RidgeOnly: t.opt.RidgeOnly, Readout: t.opt.Readout, Tool: t.opt.Tool,
	}
}

func writeShard(path string, job, own []byte, l *fit.Learner) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
			err = fmt.Errorf("offline: %s: %w", path, err)
		}
	}()
	buf := bufio.NewWriterSize(tmp, 1<<20)
	sum := sha256.New()
	w := io.MultiWriter(buf, sum)
	head := binary.LittleEndian.AppendUint32([]byte(shardMagic), shardVersion)
	for _, part := range [][]byte{job, own} {
		head = append(binary.LittleEndian.AppendUint32(head, uint32(len(part))), part...)
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	if err := l.Encode(w); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { _, err := buf.Write(sum.Sum(nil)); return err },
		buf.Flush,
		func() error { return durable.Commit(tmp, path, 0o644) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
