package watchcmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// bank of the detector: its training takes seconds.
const bank = "small"

// learned is a trained detector.
type learned struct {
	model  *reservoir.Model
	report offline.RetrainReport
	rate   float64
	rules  map[string]string
	level  float64   // p-values up to level are novel
	later  []float64 // p-values of the last third of the samples, ascending
}

// usedChannels returns the names and numbers of the used channels.
func usedChannels(sensors []discover.Sensor) (names []string, numbers []int) {
	for i, s := range sensors {
		if s.Used {
			names, numbers = append(names, s.Name), append(numbers, i)
		}
	}
	return names, numbers
}

// writeSamples writes samples of the used channels as a recording. The samples of each machine are
// divided into streams of block samples (0: one stream); the last one may be longer.
func writeSamples(path string, s *discover.Samples, sensors []discover.Sensor, block int) error {
	names, numbers := usedChannels(sensors)
	w, err := archive.WriteRecording(path, archive.RecordingInfo{Name: "watch", Channels: names, Source: archive.Provenance{Format: "watch", Tool: cli.ToolName()}})
	if err != nil {
		return err
	}
	for _, name := range s.Names() {
		m := s.Machines[name]
		blocks, stream := 1, name
		if block > 0 {
			blocks = max(1, len(m.Times)/block)
		}
		var c archive.RecordingChunk
		for i, t := range m.Times {
			if blocks > 1 {
				stream = fmt.Sprintf("%s~%d", name, min(i/block, blocks-1))
			}
			c.Stream, c.Seq, c.Time = append(c.Stream, stream), append(c.Seq, int64(i+1)), append(c.Time, t)
			c.End, c.Label = append(c.End, false), append(c.Label, "")
			for _, k := range numbers {
				c.Values = append(c.Values, m.Values[i*len(s.Channels)+k])
			}
		}
		if err := w.Write(&c); err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// train trains a detector on samples of healthy machines. A detector of the first two thirds of
// the time tells how novel the last third is: from that follow the level of the detector, and
// whether the machines are steady.
func (w *watcher) train(ctx context.Context, s *discover.Samples, sensors []discover.Sensor, rate float64) (*learned, error) {
	dir, err := os.MkdirTemp("", "eusn-stream-watch-")
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "set TMPDIR to a folder with free space")
	}
	defer os.RemoveAll(dir)
	l := &learned{rate: rate}
	t := trainer{w: w, dir: dir, sensors: sensors, rate: rate}
	early, later := s.Split(earlyShare)
	first, _, err := t.retrain(ctx, early, 0)
	if err != nil {
		return nil, err
	}
	if l.later, err = t.evaluate(ctx, first, later); err != nil {
		return nil, err
	}
	l.level = levelOf(l.later)
	if l.model, l.report, err = t.retrain(ctx, s, l.level); err != nil {
		return nil, err
	}
	l.rules = rulesOf(l.model.Policy, rate, l.level)
	return l, nil
}

// trainer trains detectors of a set of sensors.
type trainer struct {
	w       *watcher
	dir     string // temporary
	sensors []discover.Sensor
	rate    float64
}

// writeTemporary writes samples to a temporary archive, see writeSamples.
func (t *trainer) writeTemporary(s *discover.Samples, block int) (archives.Labeled, error) {
	path := filepath.Join(t.dir, "samples.parquet")
	names, _ := usedChannels(t.sensors)
	return archives.Labeled{Path: path, Channels: len(names), Files: []string{path}}, writeSamples(path, s, t.sensors, block)
}

// retrain trains a detector of the samples with a level; 0: the default level.
func (t *trainer) retrain(ctx context.Context, s *discover.Samples, level float64) (*reservoir.Model, offline.RetrainReport, error) {
	p := policyOf(t.rate)
	longest := 0
	for _, m := range s.Machines {
		longest = max(longest, len(m.Times))
	}
	data, err := t.writeTemporary(s, max(blockWindows*p.Length, longest/blocks))
	if err != nil {
		return nil, offline.RetrainReport{}, err
	}
	o := offline.RetrainOptions{Tool: cli.ToolName(), Rate: t.rate, Policy: p, Novelty: &offline.NoveltyOptions{HealthyOnly: true, Level: level}}
	if o.Spec, err = reservoir.Bank(bank, data.Channels); err != nil {
		return nil, offline.RetrainReport{}, err
	}
	o.TrainHop = p.Hop * min(hops, 1+s.Count/p.Hop/mostLearned)
	if s.Timed { // by the times, with the longest interval, for the flag rate
		o.Rate = 0
	}
	kind, _, err := engines.Choose(t.w.app.Engine, o.Spec)
	if err != nil {
		return nil, offline.RetrainReport{}, err
	}
	o.NewEngine = engines.New(kind)
	progress := t.w.app.Progress()
	defer progress.Close()
	return data.Retrain(ctx, o, progress.Report)
}

// evaluate returns the p-values of the samples, in ascending order.
func (t *trainer) evaluate(ctx context.Context, m *reservoir.Model, s *discover.Samples) (p []float64, err error) {
	data, err := t.writeTemporary(s, 0)
	if err != nil {
		return nil, err
	}
	kind, _, err := engines.Choose(t.w.app.Engine, m.Network.Spec)
	if err != nil {
		return nil, err
	}
	ev, err := data.Evaluate(ctx, m, offline.EvaluateOptions{EngineOptions: offline.EngineOptions{NewEngine: engines.New(kind)}}, nil)
	if err != nil {
		return nil, err
	}
	for i := range ev.Predictions {
		p = append(p, float64(ev.Predictions[i].NoveltyP))
	}
	slices.Sort(p)
	return p, nil
}

// changed describes how unlike the last third of the samples is; empty if the machines are steady.
func (l *learned) changed() string {
	novel, _ := slices.BinarySearch(l.later, leastLevel*1.0001)
	if share := float64(novel) / float64(max(1, len(l.later))); share > tolerated*leastLevel {
		return fmt.Sprintf("the machines are not steady: %.2g %% of the newest windows are unlike the earlier windows, want at most %.2g %%", 100*share, 100*tolerated*leastLevel)
	}
	return ""
}
