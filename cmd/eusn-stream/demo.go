package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Defaults of the demo, chosen so that it ends within a minute on two cores.
const (
	demoStreams = 300
	demoMembers = 12 // for the simulated machine; a given archive gets the default bank

	// Where a stream goes on after a sequence, series hold several.
	demoLength  = 160 // samples of a window or count, and between an endless stream's predictions
	demoSamples = 4 * demoLength
	demoGap     = time.Second

	demoMachines = 15 // of a plant
)

type demoOptions struct {
	dir, archive string
	streams      int
	members      int // 0 = the default for the data
	units        int
	seed         uint64
	simulate     offline.MachineOptions
	continuous   bool
	pol          policyFlags
	policy       reservoir.Policy
	kept         []string // files that are complete
}

// setPolicy reads the policy's flags and, where data are simulated, chooses
// what is not given.
func (o *demoOptions) setPolicy(f *pflag.FlagSet) (err error) {
	def := func(to *int, value int, kinds ...reservoir.PolicyKind) {
		if *to == 0 && o.archive == "" && slices.Contains(kinds, reservoir.PolicyKind(o.pol.kind)) {
			*to = value
		}
	}
	def(&o.pol.Length, demoLength, reservoir.Window, reservoir.Count)
	def(&o.pol.Hop, max(1, o.pol.Length/2), reservoir.Window)
	def(&o.pol.Early, demoLength, reservoir.Endless)
	if o.pol.kind == string(reservoir.Gap) {
		o.pol.Gap = cmp.Or(o.pol.Gap, demoGap)
		if !f.Changed("streams") {
			o.streams = demoStreams / 3 // for silence to stand between series
		}
	}
	if o.policy, err = o.pol.policy(f); err != nil {
		return err
	}
	if o.continuous && (o.archive != "" || o.policy.Kind != reservoir.Window && o.policy.Kind != reservoir.Count) {
		return errors.New("--continuous: a stream without marks and silences wants --policy window or count, and is simulated: no --dataset")
	}
	if o.simulate.Samples == 0 && o.goesOn() {
		o.simulate.Samples = max(demoSamples, 4*o.pol.Length)
	}
	return nil
}

// goesOn reports whether a stream goes on where a series ends, so that each
// must be a stream of its own.
func (o *demoOptions) goesOn() bool {
	return o.policy.Kind != reservoir.Marked && o.policy.Kind != reservoir.Gap
}

func newDemo(a *app) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See all of it work: simulate, train, stream, predict, compare",
		Long: `Make sensor data by simulation (vibration of a rotating machine: healthy,
imbalance, two kinds of bearing fault), write it as a Parquet archive, train a
model, start a NATS server and the stage, and replay the test part as hundreds of
concurrent streams. Then compare every live prediction with an offline
evaluation: they must be equal bit for bit, or the exit code is 5.

--policy says where sequences end, in training, evaluation and live. Under marked
and gap, streams carry series one after the other, each ended by a mark or by
silence; under window, count and endless each series is a stream of its own, longer
than a sequence, and --streams of them play at a time. With --continuous the
simulated machines run on while their condition changes, as in a plant.

The archive and the model stay in --dir; the server's data is removed.`,
		Example: `  eusn-stream demo
  eusn-stream demo --policy window
  eusn-stream demo --policy window --continuous
  eusn-stream demo --dataset Adiac.parquet --streams 100`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "demo-data", "where archive and model are written")
	f.StringVar(&o.archive, "dataset", "", "use this archive instead of simulated data")
	f.BoolVar(&o.continuous, "continuous", false, "record machines whose condition changes as they run, with labelled intervals, and train, evaluate and replay those recordings")
	o.pol.add(f)
	f.IntVar(&o.streams, "streams", demoStreams, "concurrent streams of the replay")
	f.IntVar(&o.members, "members", 0, fmt.Sprintf("networks in the bank (default %d, with --dataset %d)", demoMembers, reservoir.DefaultBank(1).Members))
	f.IntVar(&o.units, "units", reservoir.DefaultBank(1).Units, "units of each network")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation and of the weights")
	f.IntVar(&o.simulate.Train, "train", offline.DefaultMachineSeries, "simulated training series")
	f.IntVar(&o.simulate.Test, "test", offline.DefaultMachineSeries, "simulated test series")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.setPolicy(f); err != nil {
			return err
		}
		if o.streams < 1 || o.members < 1 && f.Changed("members") || o.units < 1 {
			return errors.New("--streams, --members and --units: want positive numbers")
		}
		if o.archive == "" {
			if o.simulate.Train < 4 || o.simulate.Test < 4 {
				return fmt.Errorf("--train %d, --test %d: want at least 4 of each, one per class", o.simulate.Train, o.simulate.Test)
			}
		}
		return a.do(func(ctx context.Context, _ []string) error {
			err := a.demo(ctx, &o)
			kept := "nothing was kept"
			if len(o.kept) > 0 {
				kept = "complete and kept: " + strings.Join(o.kept, ", ")
			}
			return orInterrupted(err, "%s", kept)
		})(cmd, args)
	}
	return cmd
}

func (a *app) demo(ctx context.Context, o *demoOptions) error {
	begin := time.Now()
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fail(exitFailure, fmt.Errorf("demo: %w", err), "eusn-stream demo --dir ANOTHER")
	}
	train, test, err := a.demoData(ctx, o)
	if err != nil {
		return err
	}
	m, name, err := a.demoModel(ctx, o, train)
	if err != nil {
		return err
	}
	a.say("3/5  evaluating the test part offline: %s", policyText(m.Policy))
	p := a.progress()
	ev, err := test.evaluate(ctx, m, offline.EvaluateOptions{EngineOptions: offline.EngineOptions{NewEngine: newEngine(a.engine)}}, p.report)
	p.close()
	if err != nil {
		return err
	}
	src, err := o.replay(test, ev)
	if err != nil {
		return err
	}
	live, err := a.demoLive(ctx, o, src, m, name)
	err = errors.Join(err, src.close())
	if err != nil {
		return err
	}
	return a.demoResult(live, ev, time.Since(begin))
}

// demoReplay is what is played, and what is to come of it.
type demoReplay struct {
	pipeline.Source
	close   func() error
	streams int // at a time
	text    string
	want    map[string][]int // of each stream, its predictions in order: indices into those of ev
	ev      *offline.Evaluation
}

// replay plays the test part as the policy needs it.
func (o *demoOptions) replay(test labelledData, ev *offline.Evaluation) (demoReplay, error) {
	r := demoReplay{want: map[string][]int{}, ev: ev, close: func() error { return nil }}
	stream := func(id string) string { return id }
	if test.set == nil {
		rec, err := offline.ReadRecording(test.path)
		if err != nil {
			return r, err
		}
		r.Source, r.close, r.streams = &recordingSource{r: rec}, rec.Close, ev.Series
		r.text = fmt.Sprintf("replaying %d continuous streams of %d samples", ev.Series, rec.Rows)
	} else {
		src, names := o.deal(test.set)
		r.Source, r.streams = src, min(o.streams, src.streams)
		r.text = fmt.Sprintf("replaying %d test series on %d concurrent streams", len(src.series), r.streams)
		stream = func(id string) string { return names[id] }
	}
	for k, p := range ev.Predictions { // those of a series in order, and so are the series
		r.want[stream(p.ID)] = append(r.want[stream(p.ID)], k)
	}
	return r, nil
}

// deal gives each test series to a stream.
func (o *demoOptions) deal(d *offline.Dataset) (src *seriesSource, stream map[string]string) {
	deal := o.streams
	if o.goesOn() {
		deal = 0
	}
	src = newSeriesSource(d, offline.Test, deal)
	if o.policy.Kind == reservoir.Gap {
		src.bySilence(min(time.Second/offline.DefaultMachineRate, o.policy.Gap), 2*o.policy.Gap)
	}
	stream = map[string]string{} // of each series
	for k, i := range src.series {
		stream[d.Series[i].ID] = streamName(k % src.streams)
	}
	return src, stream
}

// demoData simulates the machine or the plant, or reads the archive asked for.
func (a *app) demoData(ctx context.Context, o *demoOptions) (train, test labelledData, err error) {
	o.simulate.Seed = o.seed
	if o.continuous {
		if train, err = a.demoPlant(ctx, o, offline.Train); err == nil {
			test, err = a.demoPlant(ctx, o, offline.Test)
		}
		return train, test, err
	}
	d, err := a.demoSeries(ctx, o)
	if err != nil {
		return train, test, err
	}
	train = labelledData{set: d, channels: len(d.Channels)}
	return train, train, nil
}

// demoPlant simulates continuous streams of machines and records them.
func (a *app) demoPlant(ctx context.Context, o *demoOptions, part offline.Split) (labelledData, error) {
	intervals := map[offline.Split]int{offline.Train: o.simulate.Train, offline.Test: o.simulate.Test}[part]
	machines := max(1, min(intervals/5, demoMachines))
	path := filepath.Join(o.dir, fmt.Sprintf("plant-%s.parquet", part))
	a.say("1/5  simulating a plant of %d rotating machines, %d labelled intervals to %s, seed %d", machines, intervals, part, o.seed)
	p := a.progress()
	err := offline.SimulatePlant(ctx, path, part, machines, o.simulate, p.report)
	p.close()
	if err != nil {
		return labelledData{}, fail(exitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.say("     wrote %s", path)
	return labelledData{path: path, channels: 3}, nil
}

// demoSeries simulates series, or reads the archive asked for.
func (a *app) demoSeries(ctx context.Context, o *demoOptions) (*offline.Dataset, error) {
	if o.archive != "" {
		a.say("1/5  reading %s", o.archive)
		d, err := readArchive(o.archive)
		if err == nil && len(d.Part(offline.Test)) == 0 {
			err = fmt.Errorf("%s has no test part to replay", o.archive)
		}
		return d, err
	}
	a.say("1/5  simulating a rotating machine: %d training and %d test series, seed %d", o.simulate.Train, o.simulate.Test, o.seed)
	p := a.progress()
	defer p.close()
	d, err := offline.SimulateMachine(ctx, o.simulate, p.report)
	if err != nil {
		return nil, err
	}
	d.Source.Tool = toolName()
	path := filepath.Join(o.dir, "machine.parquet")
	if err := offline.WriteArchive(path, d); err != nil {
		return nil, fail(exitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.say("     wrote %s", path)
	return d, nil
}

func (o *demoOptions) keep(path string) { o.kept = append(o.kept, path) }

// demoModel trains and saves the model, and reads it back: what the stage
// uses is what the file holds.
func (a *app) demoModel(ctx context.Context, o *demoOptions, train labelledData) (*reservoir.Model, string, error) {
	spec := reservoir.DefaultBank(train.channels)
	spec.Units, spec.Seed = o.units, o.seed
	if o.archive == "" {
		spec.Members = demoMembers
	}
	spec.Members = cmp.Or(o.members, spec.Members)
	a.say("2/5  training a bank of %d x %d units", spec.Members, spec.Units)
	p := a.progress()
	m, report, err := train.retrain(ctx, offline.RetrainOptions{
		EngineOptions: offline.EngineOptions{NewEngine: newEngine(a.engine)}, Spec: spec, Policy: o.policy, Tool: toolName(),
		Planned: func(r offline.RetrainReport) { a.sayPlanned(train, o.policy, r) },
	}, p.report)
	p.close()
	if err != nil {
		return nil, "", err
	}
	name := strings.ReplaceAll(m.Training.Dataset, string(os.PathSeparator), "-") + ".safetensors"
	path := filepath.Join(o.dir, name)
	if err := m.Save(path); err != nil {
		return nil, "", fail(exitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.say("     wrote %s after %.1f s; regularisation %s", path, report.StateSeconds+report.FitSeconds, m.Training.Alpha)
	m, err = reservoir.Load(path)
	return m, name, err
}
