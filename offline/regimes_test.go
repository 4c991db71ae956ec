package offline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// operated is a recording of 20 machines that change between six regimes at random: speed and load select offset and
// amplitude of two sensors by far more than wear moves them. The number is the remaining life.
func operated(t *testing.T, path string, rows int64, speeds ...float64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, uint64(len(speeds))))
	var stream []string
	var seq []int
	var end []bool
	var columns [4][]float64
	var left []float64
	for k := range 20 {
		length := 60 + rng.IntN(40)
		for n := range length {
			speed, load := speeds[rng.IntN(len(speeds))], float64(rng.IntN(2))
			wear := math.Exp(float64(n-length) / 20)
			stream, seq, end = append(stream, fmt.Sprintf("m%d", k)), append(seq, n), append(end, n == length-1)
			for c, v := range []float64{speed + .01*rng.NormFloat64(), load, 100*speed*(1+load) + (1+load)*(wear+.05*rng.NormFloat64()), -50*load + speed*(.05*rng.NormFloat64()-wear)} {
				columns[c] = append(columns[c], v)
			}
			left = append(left, float64(length-1-n))
		}
	}
	meta := map[string]string{"eusn.archive": "recording", "eusn.version": "1", "eusn.problem": "operated", "eusn.channels": `["speed","load","a","b"]`, "eusn.provenance": `{}`}
	file := filepath.Join(t.TempDir(), path)
	if err := os.WriteFile(file, archivetest.Foreign(t, meta, []archivetest.Column{
		{"stream", archivetest.Text, rowsOf(stream)}, {"seq", arrow.PrimitiveTypes.Int64, rowsOf(seq)}, {"time", arrow.FixedWidthTypes.Timestamp_us, rowsOf(make([]*string, len(seq)))},
		{"speed", archivetest.Number, rowsOf(columns[0])}, {"load", archivetest.Number, rowsOf(columns[1])}, {"a", archivetest.Number, rowsOf(columns[2])}, {"b", archivetest.Number, rowsOf(columns[3])},
		{"end", arrow.FixedWidthTypes.Boolean, rowsOf(end)}, {"label", archivetest.Text, rowsOf(make([]*string, len(seq)))}, {"left", arrow.PrimitiveTypes.Float64, rowsOf(left)},
	}, parquet.WithMaxRowGroupLength(rows)), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// Regimes are found without their number, the same for any row groups; the channels are standardized within them,
// settings reach no network, and the numbers are predicted far better.
func TestRegimes(t *testing.T) {
	path, limit := operated(t, "train.parquet", 1<<20, 1, 2, 5), float32(50)
	o := RetrainOptions{Spec: smallBank(4), Policy: reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 4}, Target: "left", Groups: "stream", Cap: &limit, Clip: true}
	_, plain, err := retrainRecording(context.Background(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Settings = []string{"load", "speed"}
	m, r, err := retrainRecording(context.Background(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := m.Front.Regimes
	if !slices.Equal(g.Settings, []int{0, 1}) || len(g.Centers) != 6 {
		t.Fatalf("%d regimes of channels %v, want 6 of speed and load", len(g.Centers), g.Settings)
	}
	if a, b := plain.Readout.Numbers.RMSE, r.Readout.Numbers.RMSE; b > .8*a {
		t.Errorf("error %v with regimes and %v without: no better", b, a)
	}
	for c := range 2 {
		if n := m.Network.Norm; n.Scale[c] != 0 || n.Diff[c] != 0 {
			t.Errorf("setting %d has scale %v and %v", c, n.Scale[c], n.Diff[c])
		}
	}
	for c := 2; c < 4; c++ {
		if n := m.Network.Norm; math.Abs(float64(n.Mean[c])) > 1e-3 || math.Abs(float64(n.Scale[c])-1) > 1e-3 { // means and deviations of float32
			t.Errorf("channel %d after the regimes: mean %v, scale %v", c, n.Mean[c], n.Scale[c])
		}
	}
	if remarks := m.ChannelRemarks(); len(remarks) != 2 || !strings.Contains(remarks[0].Reason, "is a setting") {
		t.Errorf("%+v", remarks)
	}
	small, _, err := retrainRecording(context.Background(), operated(t, "train.parquet", 7, 1, 2, 5), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(small.Front.Regimes.Centers, g.Centers) || !reflect.DeepEqual(small.Front.Regimes.Reach, g.Reach) {
		t.Error("other row groups, other regimes")
	}
	file := filepath.Join(t.TempDir(), "m")
	if err := m.Save(file); err != nil {
		t.Fatal(err)
	}
	again, err := reservoir.Load(file)
	if err != nil || !reflect.DeepEqual(again.Front, m.Front) {
		t.Errorf("read as %+v, %v", again, err)
	}
	for _, c := range []struct {
		speeds []float64
		far    bool
	}{{[]float64{5, 2}, false}, {[]float64{3.5}, true}} {
		ev, err := evaluateRecording(context.Background(), again, operated(t, "test.parquet", 50, c.speeds...), EvaluateOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ev.Predictions {
			if far := p.Flags&outcome.FlagOutOfRange != 0; far != c.far {
				t.Fatalf("speeds %v: flags %v", c.speeds, p.Flags)
			}
		}
		if !c.far && ev.Last.RMSE > 10 { // of lives up to 50; 14 is the error of the mean
			t.Errorf("%+v", ev.Last)
		}
	}
}

// Settings without separate clusters are one regime; a number of regimes divides them.
func TestRegimesOfNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	s := newSettingsSample([]int{0, 2}, 3)
	for i := range 3 {
		c := &chunk{stream: i, counts: true}
		for range 5000 {
			c.values = append(c.values, float32(rng.NormFloat64()), 7, 100+float32(rng.NormFloat64()))
			c.labels = append(c.labels, -1)
		}
		s.add(c)
	}
	if n := len(s.rows); n > mostClustered || n < mostClustered/2 {
		t.Errorf("%d of 15000 samples are kept", n)
	}
	for k, want := range map[int]int{0: 1, 4: 4} {
		rows := *s
		rows.rows = nil
		for _, r := range s.rows {
			rows.rows = append(rows.rows, settingsRow{r.hash, slices.Clone(r.values)})
		}
		g, err := rows.regimes(k)
		if err != nil || len(g.Centers) != want {
			t.Errorf("%d regimes asked for: %v, %v", k, g, err)
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	for want, o := range map[string]RetrainOptions{
		`setting "wind" is no channel`:    {Settings: []string{"wind"}},
		`setting "c0" is named twice`:     {Settings: []string{"c0", "c0"}},
		"all 2 channels are settings":     {Settings: []string{"c0", "c1"}},
		"3 operating regimes and no sett": {Regimes: 3},
		"65 operating regimes, want 1 to": {Settings: []string{"c0"}, Regimes: 65},
	} {
		if err := o.checkSettings([]string{"c0", "c1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Shards of a training with regimes make the model of a single job.
func TestShardsWithRegimes(t *testing.T) {
	d := tones(60, 12)
	o := RetrainOptions{Spec: smallBank(2), Settings: []string{d.Channels[0]}, Regimes: 3}
	m, _ := retrained(t, d, o)
	var paths []string
	for i := range 2 {
		path := filepath.Join(t.TempDir(), "s")
		if _, err := RetrainShard(context.Background(), d, o, Shard{i + 1, 2}, path, nil); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	merged, _, err := MergeShards(context.Background(), paths, RetrainOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Front.Regimes.Centers) != 3 || !reflect.DeepEqual(merged.Front, m.Front) || !reflect.DeepEqual(merged.Network, m.Network) {
		t.Error("the merged model is another one")
	}
	if ev := evaluated(t, merged, d, EvaluateOptions{}); len(ev.Predictions) != len(d.Part(archive.Test)) {
		t.Errorf("%d predictions", len(ev.Predictions))
	}
}
