package demo

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

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Defaults of the demo, so that it ends within a minute on two cores.
const (
	demoStreams = 300

	// If a stream continues after a sequence, series hold several.
	demoLength    = 160 // samples of a window or count, and between an endless stream's predictions
	demoSamples   = 4 * demoLength
	demoSequences = 7 // of a series at most: training time grows with the cube of the sequences
	demoGap       = time.Second

	demoMachines = 15 // of a plant
)

type demoOptions struct {
	dir, archive string
	streams      int
	bank         string
	members      int // of bank euler; 0 = its own
	units        int
	seed         uint64
	simulate     machine.Options
	continuous   bool
	pol          offlinecmd.PolicyFlags
	policy       reservoir.Policy
	decide       offlinecmd.DecideFlags
	early        *offline.EarlyOptions
	kept         []string // files that are complete
}

// setPolicy reads the policy's flags and, for simulated data, chooses missing values.
func (o *demoOptions) setPolicy(f *pflag.FlagSet) (err error) {
	def := func(to *int, value int, kinds ...reservoir.PolicyKind) {
		if *to == 0 && o.archive == "" && slices.Contains(kinds, reservoir.PolicyKind(o.pol.Name)) {
			*to = value
		}
	}
	def(&o.pol.Length, demoLength, reservoir.Window, reservoir.Count)
	def(&o.pol.Hop, max(1, o.pol.Length/2), reservoir.Window)
	def(&o.pol.Early, demoLength, reservoir.Endless)
	if o.pol.Name == string(reservoir.Gap) {
		o.pol.Gap = cmp.Or(o.pol.Gap, demoGap)
		if !f.Changed("streams") {
			o.streams = demoStreams / 3 // for silence to stand between series
		}
	}
	if o.policy, err = o.pol.Parse(f); err != nil {
		return err
	}
	if o.early, err = o.decide.Options(f); err != nil {
		return err
	}
	if o.continuous && (o.archive != "" || o.policy.Kind != reservoir.Window && o.policy.Kind != reservoir.Count) {
		return errors.New("--continuous requires --policy window or count, and no DATA: its streams are simulated and have no marks or pauses")
	}
	if o.simulate.Samples == 0 && o.goesOn() {
		o.simulate.Samples = o.countSamples()
	}
	return nil
}

// countSamples returns the length of a simulated series, or the mean length of a labeled interval.
func (o *demoOptions) countSamples() int {
	step := cmp.Or(o.pol.Hop, o.pol.Length, o.pol.Early) // from one prediction to the next
	samples := min(max(demoSamples, 4*o.pol.Length), max(step, o.pol.Length)+(demoSequences-1)*step)
	if o.continuous {
		return max(samples, 4*o.pol.Length) // for windows with one label
	}
	return max(samples, machine.MinSamples)
}

// goesOn reports whether a stream continues after the end of a series. Then each series must be a stream of its own.
func (o *demoOptions) goesOn() bool {
	return o.policy.Kind != reservoir.Marked && o.policy.Kind != reservoir.Gap
}

// checkSizes refuses impossible sizes of the network and of the simulation, and names the bank selected by the flags.
func (o *demoOptions) checkSizes(f *pflag.FlagSet) error {
	if o.streams < 1 || o.members < 1 && f.Changed("members") || o.units < 1 && f.Changed("units") {
		return errors.New("--streams, --members and --units: want positive numbers")
	}
	if f.Changed("members") || f.Changed("units") {
		if f.Changed("bank") && o.bank != "euler" {
			return fmt.Errorf("--members and --units are parameters of --bank euler, not of %s", o.bank)
		}
		o.bank = "euler"
	}
	if _, err := reservoir.Bank(o.bank, 1); err != nil {
		return fmt.Errorf("--bank %s: want one of %s", o.bank, strings.Join(reservoir.Banks, ", "))
	}
	if o.archive == "" {
		if o.simulate.Train < 4 || o.simulate.Test < 4 {
			return fmt.Errorf("--train-series %d, --test-series %d: want at least 4 of each, one per class", o.simulate.Train, o.simulate.Test)
		}
	}
	return nil
}

// NewCommand is "demo".
func NewCommand(a *cli.App) *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [DATA]",
		Short: "Try everything: simulate, train, stream, predict, compare",
		Long: `Simulate sensor data (vibration of a rotating machine: healthy, imbalance, two kinds
of bearing fault), write them as a Parquet archive, train a model, start a NATS
server and the stage, and publish the test part as hundreds of concurrent streams.
Then compare every live prediction with an offline evaluation: they must be equal
bit for bit, otherwise the exit code is 5.

--policy decides where sequences end, in training, evaluation and live. With marked
and gap a stream carries one series after the other, each ended by a mark or by
silence. With window, count and endless each series is a stream of its own, longer
than a sequence, and --streams of them run at the same time. With --continuous the
simulated machines keep running while their condition changes, as in a plant.

DATA is a data set to use instead of simulated data. The archive and the model stay in --dir; the server's data are removed.`,
		Example: `  eusn-stream demo
  eusn-stream demo --policy window
  eusn-stream demo --policy window --continuous
  eusn-stream demo --early 32 --decide
  eusn-stream demo Adiac.parquet --streams 100`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "demo-data", "folder for archive and model")
	f.BoolVar(&o.continuous, "continuous", false, "simulate machines whose condition changes while they run, and train on, evaluate and replay recordings of them")
	o.pol.Add(f)
	o.decide.Add(f)
	f.IntVar(&o.streams, "streams", demoStreams, "concurrent streams of the replay")
	f.StringVar(&o.bank, "bank", "small", "recipe of the bank: "+strings.Join(reservoir.Banks, ", "))
	f.IntVar(&o.members, "members", 0, fmt.Sprintf("networks in the bank euler (default %d; asks for that bank)", reservoir.EulerBank(1).Members))
	f.IntVar(&o.units, "units", 0, fmt.Sprintf("units of each network of the bank euler (default %d; asks for that bank)", reservoir.EulerBank(1).Units))
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation and of the weights")
	f.IntVar(&o.simulate.Train, "train-series", machine.DefaultSeries, "simulated training series")
	f.IntVar(&o.simulate.Test, "test-series", machine.DefaultSeries, "simulated test series")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.archive = strings.Join(args, "")
		if err := o.setPolicy(f); err != nil {
			return err
		}
		if err := o.checkSizes(f); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) error {
			err := demo(ctx, a, &o)
			kept := "no file was kept"
			if len(o.kept) > 0 {
				kept = "complete and kept: " + strings.Join(o.kept, ", ")
			}
			return cli.OrInterrupted(err, "%s", kept)
		})(cmd, args)
	}
	return cmd
}

func demo(ctx context.Context, a *cli.App, o *demoOptions) error {
	begin := time.Now()
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	train, test, err := demoData(ctx, a, o)
	if err != nil {
		return err
	}
	m, name, err := demoModel(ctx, a, o, train)
	if err != nil {
		return err
	}
	a.Say("3/5  evaluating the test part offline: %s", models.PolicyText(m.Policy))
	p := a.Progress()
	ev, err := test.Evaluate(ctx, m, offline.EvaluateOptions{EngineOptions: offline.EngineOptions{NewEngine: engines.New(a.Engine)}}, p.Report)
	p.Close()
	if err != nil {
		return err
	}
	src, err := o.replay(test, ev)
	if err != nil {
		return err
	}
	live, err := demoLive(ctx, a, o, src, m, name)
	err = errors.Join(err, src.close())
	if err != nil {
		return err
	}
	return demoResult(a, live, ev, time.Since(begin))
}

// demoReplay is the data to play, with the expected results.
type demoReplay struct {
	producer.Source
	close   func() error
	streams int // at a time
	text    string
	want    map[string][]int // of each stream, its predictions in order: indices into the predictions of ev
	ev      *offline.Evaluation
}

// replay plays the test part in the form for the policy.
func (o *demoOptions) replay(test archives.Labeled, ev *offline.Evaluation) (demoReplay, error) {
	r := demoReplay{want: map[string][]int{}, ev: ev, close: func() error { return nil }}
	stream := func(id string) string { return id }
	if test.Set == nil {
		rec, err := archive.ReadRecording(test.Path)
		if err != nil {
			return r, err
		}
		r.Source, r.close, r.streams = source.NewRecording(rec), rec.Close, ev.Series
		r.text = fmt.Sprintf("replaying %d continuous streams of %d samples", ev.Series, rec.Rows)
	} else {
		src, names := o.deal(test.Set)
		r.Source, r.streams = src, min(o.streams, src.Streams)
		r.text = fmt.Sprintf("replaying %d test series on %d concurrent streams", len(src.Series), r.streams)
		stream = func(id string) string { return names[id] }
	}
	for k, p := range ev.Predictions { // predictions of a series are in order, and series also
		r.want[stream(p.ID)] = append(r.want[stream(p.ID)], k)
	}
	return r, nil
}

// deal gives each test series to a stream.
func (o *demoOptions) deal(d *archive.Dataset) (src *source.Series, stream map[string]string) {
	deal := o.streams
	if o.goesOn() {
		deal = 0
	}
	src = source.NewSeries(d, archive.Test, deal)
	if o.policy.Kind == reservoir.Gap {
		src.BySilence(min(time.Second/machine.DefaultRate, o.policy.Gap), 2*o.policy.Gap)
	}
	stream = map[string]string{} // of each series
	for k, i := range src.Series {
		stream[d.Series[i].ID] = source.StreamName(k % src.Streams)
	}
	return src, stream
}

// demoData simulates the machine or the plant, or reads the archive asked for.
func demoData(ctx context.Context, a *cli.App, o *demoOptions) (train, test archives.Labeled, err error) {
	o.simulate.Seed = o.seed
	if o.continuous {
		if train, err = demoPlant(ctx, a, o, archive.Train); err == nil {
			test, err = demoPlant(ctx, a, o, archive.Test)
		}
		return train, test, err
	}
	d, err := demoSeries(ctx, a, o)
	if err != nil {
		return train, test, err
	}
	train = archives.Labeled{Set: d, Channels: len(d.Channels)}
	return train, train, nil
}

// demoPlant simulates continuous streams of machines and records the streams.
func demoPlant(ctx context.Context, a *cli.App, o *demoOptions, part archive.Split) (archives.Labeled, error) {
	intervals := map[archive.Split]int{archive.Train: o.simulate.Train, archive.Test: o.simulate.Test}[part]
	machines := max(1, min(intervals/5, demoMachines))
	path := filepath.Join(o.dir, fmt.Sprintf("plant-%s.parquet", part))
	a.Say("1/5  simulating a plant of %d rotating machines, %d labeled intervals to %s, seed %d", machines, intervals, part, o.seed)
	p := a.Progress()
	err := machine.SimulatePlant(ctx, path, part, machines, o.simulate, p.Report)
	p.Close()
	if err != nil {
		return archives.Labeled{}, cli.Fail(cli.ExitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.Say("     wrote %s", path)
	return archives.Labeled{Path: path, Channels: 3}, nil
}

// demoSeries simulates series, or reads the archive asked for.
func demoSeries(ctx context.Context, a *cli.App, o *demoOptions) (*archive.Dataset, error) {
	if o.archive != "" {
		a.Say("1/5  reading %s", o.archive)
		d, err := archives.Read(o.archive)
		if err == nil && len(d.Part(archive.Test)) == 0 {
			err = fmt.Errorf("%s has no test part to replay", o.archive)
		}
		return d, err
	}
	a.Say("1/5  simulating a rotating machine: %d training and %d test series, seed %d", o.simulate.Train, o.simulate.Test, o.seed)
	p := a.Progress()
	defer p.Close()
	d, err := machine.Simulate(ctx, o.simulate, p.Report)
	if err != nil {
		return nil, err
	}
	d.Source.Tool = cli.ToolName()
	path := filepath.Join(o.dir, "machine.parquet")
	if err := archive.WriteDataset(path, d); err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.Say("     wrote %s", path)
	return d, nil
}

func (o *demoOptions) keep(path string) { o.kept = append(o.kept, path) }

// demoModel trains and saves the model, and reads it back: so the stage uses the content of the file.
func demoModel(ctx context.Context, a *cli.App, o *demoOptions, train archives.Labeled) (*reservoir.Model, string, error) {
	spec, err := reservoir.Bank(o.bank, train.Channels)
	if err != nil {
		return nil, "", err
	}
	spec.Units, spec.Members, spec.Seed = cmp.Or(o.units, spec.Units), cmp.Or(o.members, spec.Members), o.seed
	a.Say("2/5  training a bank of %d x %d units", spec.Members, spec.Units)
	p := a.Progress()
	m, report, err := train.Retrain(ctx, offline.RetrainOptions{
		EngineOptions: offline.EngineOptions{NewEngine: engines.New(a.Engine)}, Spec: spec, Policy: o.policy, Early: o.early, Tool: cli.ToolName(),
		Planned: func(r offline.RetrainReport) { offlinecmd.SayPlanned(a, train, o.policy, r) },
	}, p.Report)
	p.Close()
	if err != nil {
		return nil, "", err
	}
	name := strings.ReplaceAll(m.Training.Dataset, string(os.PathSeparator), "-") + ".safetensors"
	path := filepath.Join(o.dir, name)
	if err := m.Save(path); err != nil {
		return nil, "", cli.Fail(cli.ExitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.Say("     wrote %s after %.1f s; regularization %s", path, report.StateSeconds+report.FitSeconds, m.Training.Alpha)
	m, err = reservoir.Load(path)
	return m, name, err
}
