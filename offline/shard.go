package offline

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Shard is share I of N, from 1, of a training.
type Shard struct{ I, N int }

// A file of statistics is what one shard has learnt:
//
//	EUSNPART, uint32 version 2; 3 where the job has a sampling rate, 4 where it has a front end
//	uint32 length, JSON of shardJob: the same in all shards of a job
//	uint32 length, JSON of shardOwn
//	what readout.Learner.Encode writes
//	SHA-256 of all that
//
// all little-endian. Version 1 is the same without what clipping needs, which is
// not there in files of earlier programs. Versions 3 and 4 are the same as 2:
// programs that know no sampling rate, or no front end, would merge the shards into
// a model without it.
const (
	shardMagic   = "EUSNPART"
	shardVersion = 2
	ratedVersion = 3
	frontVersion = 4
	maxShardJob  = 1 << 26
)

// shardJob is all that must be the same in the shards of one job, and all that
// the model says in addition to what is learnt.
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
	Front       *reservoir.Front       `json:"front,omitempty"` // version 4
	Alphas      []float64              `json:"alphas"`
	RawFeatures bool                   `json:"raw_features"`
	RidgeOnly   bool                   `json:"ridge_only"`
	Readout     string                 `json:"head"`
	Tool        string                 `json:"tool"`
}

// shardOwn is what differs between shards.
type shardOwn struct {
	Shard        int     `json:"shard"`
	Missing      int64   `json:"missing"`
	StateSeconds float64 `json:"state_seconds"`
}

// RetrainShard does one share of a training. It reads all of the training part,
// because the constants of the input transform are those of all series. Where
// features are clipped and too many to be kept, it also runs all of it through the
// network, because the limits are those of all series. Then it runs
// its share of the series, neighbours in the archive, through the network, and
// writes what there is to learn from them to a file of statistics at path. The
// file is written whole or not at all. MergeShards makes the model from the
// files of all shards.
func RetrainShard(ctx context.Context, d *Dataset, opt RetrainOptions, s Shard, path string, progress Progress) (RetrainReport, error) {
	fail := func(err error) (RetrainReport, error) { return RetrainReport{}, err }
	opt = opt.withDefaults(len(d.Channels))
	src, unlabelled, err := trainingPart(d)
	if err != nil {
		return fail(err)
	}
	t, err := newTraining(ctx, src, opt)
	if err != nil {
		return fail(err)
	}
	t.report.Unlabelled = unlabelled
	series := src.sampleSource.(*seriesSource).series
	if s.N < 1 || s.I < 1 || s.I > s.N {
		return fail(fmt.Errorf("offline: shard %d of %d: want 1 of 1 or more", s.I, s.N))
	}
	first, last := len(series)*(s.I-1)/s.N, len(series)*s.I/s.N
	from, to := t.upTo(first), t.upTo(last)
	if from == to {
		return fail(fmt.Errorf("offline: shard %d of %d has none of the %d sequences that are learnt from: take fewer shards", s.I, s.N, t.plan.points))
	}
	share := src
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
	version := uint32(shardVersion)
	switch {
	case t.front != nil:
		version = frontVersion
	case t.report.Sampling.Rate > 0:
		version = ratedVersion
	}
	return t.report, writeShard(path, version, job, own, l)
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

func writeShard(path string, version uint32, job, own []byte, l *readout.Learner) (err error) {
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
	head := binary.LittleEndian.AppendUint32([]byte(shardMagic), version)
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
		func() error { return tmp.Chmod(0o644) }, // CreateTemp makes it private
		tmp.Sync,
		tmp.Close,
		func() error { return os.Rename(tmp.Name(), path) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return syncDir(filepath.Dir(path))
}

// MergeShards makes the model of a job whose shards have all been written.
// Their order does not matter. It is the model of Retrain, except for the last
// bits of the readout, which the order of sums decides (they are the same, too,
// if there are no more sequences than features). The same shards give the same
// bits. All files are checked. Of the options only Memory is read; the other
// values are those that the shards were made with.
func MergeShards(ctx context.Context, paths []string, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	shards, err := openShards(ctx, paths)
	if err != nil {
		return fail(err)
	}
	t, err := shards[0].training(opt.Memory)
	if err != nil {
		return fail(err)
	}
	var l *readout.Learner
	defer func() {
		if l != nil {
			l.Close()
		}
	}()
	for i, s := range shards {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		if l, err = s.merge(l, t.readout(nil, 0)); err != nil {
			return fail(fmt.Errorf("offline: %s: %w", s.path, err))
		}
		t.report.Missing += s.own.Missing
		t.report.StateSeconds += s.own.StateSeconds
		progress.report(int64(i+1), int64(len(shards)), "shards merged")
	}
	if got, want := l.Plan().Features, t.opt.Spec.FeatureCount(); got != want {
		return fail(InContent(fmt.Errorf("offline: %s: statistics of %d features, the network has %d", shards[0].path, got, want)))
	}
	m, err := t.finish(ctx, l, newForecast(progress, l.Plan(), 0, 0))
	if err != nil {
		return fail(err)
	}
	return m, t.report, nil
}

// shardFile is a file of statistics whose bytes are those that were written.
type shardFile struct {
	path string
	job  shardJob
	text []byte // of job
	own  shardOwn
	at   int64 // where the statistics begin
	size int64 // theirs
}

// openShards checks that the files are the shards of one job, each once, and
// sorts them.
func openShards(ctx context.Context, paths []string) ([]*shardFile, error) {
	if len(paths) == 0 {
		return nil, errors.New("offline: no shards to merge")
	}
	var shards []*shardFile
	for _, path := range paths {
		s, err := openShard(ctx, path)
		if err != nil {
			return nil, err
		}
		shards = append(shards, s)
	}
	slices.SortFunc(shards, func(a, b *shardFile) int { return cmp.Compare(a.own.Shard, b.own.Shard) })
	first := shards[0]
	for i, s := range shards {
		if !bytes.Equal(s.text, first.text) {
			return nil, InContent(fmt.Errorf("offline: %s and %s are shards of different jobs: %s", first.path, s.path, s.job.differs(first.job)))
		}
		if i > 0 && s.own.Shard == shards[i-1].own.Shard {
			return nil, InContent(fmt.Errorf("offline: shard %d of %d is there twice: %s and %s", s.own.Shard, s.job.Shards, shards[i-1].path, s.path))
		}
	}
	for i := range first.job.Shards {
		if i >= len(shards) || shards[i].own.Shard != i+1 {
			return nil, InContent(fmt.Errorf("offline: shard %d of %d is missing, %d are there", i+1, first.job.Shards, len(shards)))
		}
	}
	return shards, nil
}

// differs names what two jobs differ in.
func (j shardJob) differs(other shardJob) string {
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"number of shards", j.Shards, other.Shards}, {"data", j.Fingerprint, other.Fingerprint}, {"network", j.Spec, other.Spec},
		{"policy", j.Policy, other.Policy}, {"front end", frontText(j.Front), frontText(other.Front)}, {"regularisations", j.Alphas, other.Alphas}, {"program", j.Tool, other.Tool}, {"readout", j.Readout, other.Readout},
	} {
		if a, b := fmt.Sprint(c.a), fmt.Sprint(c.b); a != b {
			return fmt.Sprintf("the %s of one is %s, of the other %s", c.what, b, a)
		}
	}
	return "their options differ"
}

// openShard reads what comes before the statistics, and checks every byte.
func openShard(ctx context.Context, path string) (*shardFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	s := &shardFile{path: path}
	bad := func(format string, args ...any) error {
		return InContent(fmt.Errorf("offline: %s: %w", path, fmt.Errorf(format, args...)))
	}
	if err := s.readHead(f, info.Size()); err != nil {
		return nil, bad("%w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	sum, want := sha256.New(), make([]byte, sha256.Size)
	for left := s.at + s.size; left > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := io.CopyN(sum, f, min(left, 1<<24))
		if left -= n; err != nil {
			return nil, bad("%w", err)
		}
	}
	if _, err := io.ReadFull(f, want); err != nil {
		return nil, bad("%w", err)
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return nil, bad("it is damaged: its bytes are not those that were written; let its shard run again")
	}
	return s, nil
}

// readHead reads up to the statistics of a file of the given size.
func (s *shardFile) readHead(r io.Reader, size int64) error {
	start := make([]byte, len(shardMagic)+4)
	if _, err := io.ReadFull(r, start); err != nil || string(start[:len(shardMagic)]) != shardMagic {
		return errors.New("not a file of statistics, as retrain --shard writes them")
	}
	if v := binary.LittleEndian.Uint32(start[len(shardMagic):]); v < 1 || v > frontVersion {
		return fmt.Errorf("statistics of version %d, want 1 to %d: merge with the program that wrote them", v, frontVersion)
	}
	s.at = int64(len(start))
	own := []byte(nil)
	for _, part := range []*[]byte{&s.text, &own} {
		var length [4]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return err
		}
		n := int64(binary.LittleEndian.Uint32(length[:]))
		if n > maxShardJob || s.at+4+n+sha256.Size > size {
			return fmt.Errorf("a header of %d bytes in %d, want at most %d", n, size, maxShardJob)
		}
		*part = make([]byte, n)
		if _, err := io.ReadFull(r, *part); err != nil {
			return err
		}
		s.at += 4 + n
	}
	s.size = size - s.at - sha256.Size
	if err := json.Unmarshal(s.text, &s.job); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	if err := json.Unmarshal(own, &s.own); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	if s.own.Shard < 1 || s.own.Shard > s.job.Shards || s.own.Missing < 0 || s.own.StateSeconds < 0 {
		return fmt.Errorf("shard %d of %d, with %d missing values: want 1 of 1 or more", s.own.Shard, s.job.Shards, s.own.Missing)
	}
	return nil
}

// training is the job of the shards, without its data.
func (s *shardFile) training(memory int64) (*training, error) {
	j := s.job
	bad := func(err error) (*training, error) {
		return nil, InContent(fmt.Errorf("offline: %s: %w", s.path, err))
	}
	opt := RetrainOptions{
		Spec: j.Spec, Alphas: j.Alphas, RawFeatures: j.RawFeatures, RidgeOnly: j.RidgeOnly,
		Policy: j.Policy, Readout: j.Readout, Tool: j.Tool, Memory: memory,
	}
	src := labelledData{
		what: fmt.Sprintf("data set %q", j.Report.Dataset), name: j.Report.Dataset,
		channels: j.Channels, classes: j.Classes, fingerprint: func() string { return j.Fingerprint },
	}
	if len(src.classes) < 2 {
		return bad(fmt.Errorf("%d classes, want at least 2", len(src.classes)))
	}
	if err := checkTraining(src, opt); err != nil {
		return bad(err)
	}
	net, err := reservoir.Draw(opt.Spec)
	if err != nil {
		return bad(err)
	}
	net.Norm = j.Norm
	return &training{src: src, opt: opt, net: net, front: j.Front, inputs: j.Inputs, report: j.Report}, net.Validate()
}

// merge adds the file's statistics to those before it.
func (s *shardFile) merge(l *readout.Learner, opt readout.Options) (*readout.Learner, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return l, err
	}
	defer f.Close()
	return readout.Merge(l, bufio.NewReaderSize(io.NewSectionReader(f, s.at, s.size), 1<<20), s.size, opt)
}
