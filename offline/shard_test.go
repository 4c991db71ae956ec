package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// shards writes all the shards of a job.
func shards(t *testing.T, d *archive.Dataset, opt RetrainOptions, n int) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint("part", i))
		if _, err := RetrainShard(context.Background(), d, opt, Shard{i + 1, n}, path, nil); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func mergedShards(t *testing.T, paths []string) (*reservoir.Model, RetrainReport) {
	t.Helper()
	m, r, err := MergeShards(context.Background(), paths, RetrainOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

// With no more sequences than features, and with several sequences of a series, the model of the shards is the model
// of one job, bit for bit.
func TestShardsAreOneJob(t *testing.T) {
	d := tones(90, 0)
	d.Series[4].Values[0] = nan
	for _, opt := range []RetrainOptions{
		{Spec: smallBank(2), Tool: "test"},
		{Spec: smallBank(2), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}},
		{Spec: tinyBank(2)},
	} {
		want, report := retrained(t, d, opt)
		if !report.Readout.Kernel {
			t.Fatalf("%d sequences, want no more than features", report.Sequences)
		}
		for _, n := range []int{1, 4} {
			paths := shards(t, d, opt, n)
			slices.Reverse(paths)
			m, r := mergedShards(t, paths)
			if fingerprint(t, m) != fingerprint(t, want) {
				t.Errorf("%d shards give another model", n)
			}
			r.StateSeconds, r.FitSeconds, r.Plan = report.StateSeconds, report.FitSeconds, report.Plan
			if !reflect.DeepEqual(r, report) {
				t.Errorf("%d shards report\n%+v\nwant\n%+v", n, r, report)
			}
		}
	}
}

// With more sequences than features, sums are made shard by shard: weights differ by rounding, 1e-5 of the largest at
// most, and are the same each time.
func TestShardsOfMoments(t *testing.T) {
	d, spec := tones(150, 0), smallBank(2)
	spec.Members, spec.Units = 2, 5
	want, report := retrained(t, d, RetrainOptions{Spec: spec})
	if report.Readout.Kernel {
		t.Fatalf("%d sequences, want more than features", report.Sequences)
	}
	paths := shards(t, d, RetrainOptions{Spec: spec}, 3)
	m, r := mergedShards(t, paths)
	again, _ := mergedShards(t, paths)
	if fingerprint(t, again) != fingerprint(t, m) {
		t.Error("the same shards give another model")
	}
	if r.Readout.Alpha != report.Readout.Alpha {
		t.Errorf("alpha %g, of one job %g", r.Readout.Alpha, report.Readout.Alpha)
	}
	largest := 0.0
	for _, w := range want.Readouts[0].Weights {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range want.Readouts[0].Weights {
		if got := m.Readouts[0].Weights[i]; math.Abs(float64(got-w)) > 1e-5*largest {
			t.Fatalf("weight %d: %g, of one job %g", i, got, w)
		}
	}
}

// The model has the rate given to the shards.
func TestShardsKeepTheRate(t *testing.T) {
	for _, rate := range []float64{0, 25600} {
		paths := shards(t, tones(60, 0), RetrainOptions{Spec: smallBank(2), Rate: rate}, 2)
		if m, _ := mergedShards(t, paths); m.Training.Rate != rate {
			t.Errorf("the model has the rate %g, want %g", m.Training.Rate, rate)
		}
	}
}

func TestMergeShardsRefuses(t *testing.T) {
	d, opt := tones(60, 0), RetrainOptions{Spec: smallBank(2)}
	paths := shards(t, d, opt, 3)
	opt.Spec.Seed++
	other := shards(t, d, opt, 3)
	change := func(at int) string {
		data, err := os.ReadFile(paths[1])
		if err != nil {
			t.Fatal(err)
		}
		if at < 0 {
			at += len(data)
		}
		data[at] ^= 4
		path := filepath.Join(t.TempDir(), "changed")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no statistics"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, list := range map[string][]string{
		"shard 2 of 3 is missing":          {paths[0], paths[2]},
		"shard 3 of 3 is missing":          paths[:2],
		"shard 1 of 3 is there twice":      {paths[0], paths[1], paths[0], paths[2]},
		"shards of different jobs: th":     {paths[0], other[1], paths[2]},
		"let its shard run again":          {paths[0], change(-500), paths[2]},
		"let its shard run again ":         {paths[0], change(-1), paths[2]},
		"not a file of statistics":         {paths[0], text},
		"and this program reads version 1": {change(8)},
		"no shards to merge":               nil,
		"no such file":                     {filepath.Join(t.TempDir(), "gone")},
	} {
		m, _, err := MergeShards(context.Background(), list, RetrainOptions{}, nil)
		if err == nil || m != nil || !strings.Contains(err.Error()+" ", what) {
			t.Errorf("got %v, want an error saying %q", err, what)
		}
	}
	dir := t.TempDir()
	for _, s := range []Shard{{0, 3}, {4, 3}, {1, 0}, {1, 90}} {
		path := filepath.Join(dir, "part")
		if _, err := RetrainShard(context.Background(), d, opt, s, path, nil); err == nil {
			t.Errorf("shard %+v: no error", s)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("shard %+v left a file: %v", s, err)
		}
	}
}

// FuzzShard reads anything as a file of statistics: an error, never a panic.
func FuzzShard(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "part")
	spec := smallBank(2)
	spec.Members, spec.Units = 1, 2
	if _, err := RetrainShard(context.Background(), tones(12, 0), RetrainOptions{Spec: spec}, Shard{1, 1}, path, nil); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &shardFile{path: "fuzz"}
		if err := s.readHead(strings.NewReader(string(data)), int64(len(data))); err != nil {
			return
		}
		if s.job.Spec.FeatureCount() > 1000 { // time, not memory
			return
		}
		_, _ = s.training(1 << 24)
	})
}
