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
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MergeShards makes the model of a job from all its shards, in any order. The model is Retrain's, except for the last
// bits of the readout, which depend on the order of sums (also the same if there are no more sequences than
// features). The same shards give the same bits. All files are checked. Only Memory is read from the options; other
// values come from the shards.
func MergeShards(ctx context.Context, paths []string, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	shards, err := openShards(ctx, paths)
	if err != nil {
		return fail(err)
	}
	t, err := shards[0].training(opt.Memory)
	if err != nil {
		return fail(err)
	}
	var l *fit.Learner
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
		progress.Report(int64(i+1), int64(len(shards)), "shards merged")
	}
	if got, want := l.Plan().Features, t.opt.Spec.FeatureCount(); got != want {
		return fail(datafile.InContent(fmt.Errorf("offline: %s: statistics of %d features, the network has %d", shards[0].path, got, want)))
	}
	m, err := t.finish(ctx, l, newForecast(progress, l.Plan(), 0, 0))
	if err != nil {
		return fail(err)
	}
	return m, t.report, nil
}

// shardFile is a file of statistics with a verified checksum.
type shardFile struct {
	path string
	job  shardJob
	text []byte // of job
	own  shardOwn
	at   int64 // start of the statistics
	size int64 // theirs
}

// openShards checks that the files are the shards of one job, each once, and sorts the files.
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
			return nil, datafile.InContent(fmt.Errorf("offline: %s and %s are shards of different jobs: %s", first.path, s.path, s.job.differs(first.job)))
		}
		if i > 0 && s.own.Shard == shards[i-1].own.Shard {
			return nil, datafile.InContent(fmt.Errorf("offline: shard %d of %d is there twice: %s and %s", s.own.Shard, s.job.Shards, shards[i-1].path, s.path))
		}
	}
	for i := range first.job.Shards {
		if i >= len(shards) || shards[i].own.Shard != i+1 {
			return nil, datafile.InContent(fmt.Errorf("offline: shard %d of %d is missing, %d are there", i+1, first.job.Shards, len(shards)))
		}
	}
	return shards, nil
}

// differs names the first difference of two jobs.
func (j shardJob) differs(other shardJob) string {
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"number of shards", j.Shards, other.Shards}, {"data", j.Fingerprint, other.Fingerprint}, {"network", j.Spec, other.Spec},
		{"policy", j.Policy, other.Policy}, {"front end", frontText(j.Front), frontText(other.Front)}, {"regularizations", j.Alphas, other.Alphas}, {"program", j.Tool, other.Tool}, {"readout", j.Readout, other.Readout},
	} {
		if a, b := fmt.Sprint(c.a), fmt.Sprint(c.b); a != b {
			return fmt.Sprintf("the %s of one is %s, of the other %s", c.what, b, a)
		}
	}
	return "their options differ"
}

// openShard reads the part before the statistics, and checks every byte.
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
		return datafile.InContent(fmt.Errorf("offline: %s: %w", path, fmt.Errorf(format, args...)))
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
	if v := binary.LittleEndian.Uint32(start[len(shardMagic):]); v != shardVersion {
		return fmt.Errorf("it has version %d, and this program reads version %d: merge with the program that wrote it", v, shardVersion)
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
		return nil, datafile.InContent(fmt.Errorf("offline: %s: %w", s.path, err))
	}
	opt := RetrainOptions{
		Spec: j.Spec, Alphas: j.Alphas, RawFeatures: j.RawFeatures, RidgeOnly: j.RidgeOnly,
		Policy: j.Policy, Readout: j.Readout, Tool: j.Tool, Memory: memory,
	}
	src := labeledData{
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

// merge adds the file's statistics to the earlier statistics.
func (s *shardFile) merge(l *fit.Learner, opt fit.Options) (*fit.Learner, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return l, err
	}
	defer f.Close()
	return fit.Merge(l, bufio.NewReaderSize(io.NewSectionReader(f, s.at, s.size), 1<<20), s.size, opt)
}
