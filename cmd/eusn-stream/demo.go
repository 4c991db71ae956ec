package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Defaults of the demo, chosen so that it ends within a minute on two cores.
const (
	demoStreams = 300
	demoMembers = 12 // for the simulated machine; a given archive gets the default bank
)

type demoOptions struct {
	dir, archive string
	streams      int
	members      int // 0 = the default for the data
	units        int
	seed         uint64
	simulate     offline.MachineOptions
	kept         []string // files that are complete
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

The archive and the model stay in --dir; the server's data is removed.`,
		Example: `  eusn-stream demo
  eusn-stream demo --dataset Adiac.parquet --streams 100`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "demo-data", "where archive and model are written")
	f.StringVar(&o.archive, "dataset", "", "use this archive instead of simulated data")
	f.IntVar(&o.streams, "streams", demoStreams, "concurrent streams of the replay")
	f.IntVar(&o.members, "members", 0, fmt.Sprintf("networks in the bank (default %d, with --dataset %d)", demoMembers, offline.DefaultBank(1).Members))
	f.IntVar(&o.units, "units", offline.DefaultBank(1).Units, "units of each network")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the simulation and of the weights")
	f.IntVar(&o.simulate.Train, "train", offline.DefaultMachineSeries, "simulated training series")
	f.IntVar(&o.simulate.Test, "test", offline.DefaultMachineSeries, "simulated test series")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
	d, err := a.demoData(ctx, o)
	if err != nil {
		return err
	}
	m, name, err := a.demoModel(ctx, o, d)
	if err != nil {
		return err
	}
	live, err := a.demoLive(ctx, o, d, m, name)
	if err != nil {
		return err
	}
	a.say("5/5  evaluating the same series offline")
	p := a.progress()
	ev, err := offline.Evaluate(ctx, m, d, offline.EvaluateOptions{EngineOptions: offline.EngineOptions{NewEngine: newEngine(a.engine)}}, p.report)
	p.close()
	if err != nil {
		return err
	}
	return a.demoResult(live, ev, time.Since(begin))
}

// demoData simulates the machine, or reads the archive asked for.
func (a *app) demoData(ctx context.Context, o *demoOptions) (*offline.Dataset, error) {
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
	o.simulate.Seed = o.seed
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
func (a *app) demoModel(ctx context.Context, o *demoOptions, d *offline.Dataset) (*reservoir.Model, string, error) {
	spec := offline.DefaultBank(len(d.Channels))
	spec.Units, spec.Seed = o.units, o.seed
	if o.archive == "" {
		spec.Members = demoMembers
	}
	spec.Members = cmp.Or(o.members, spec.Members)
	a.say("2/5  training a bank of %d x %d units on %d series", spec.Members, spec.Units, len(d.Part(offline.Train)))
	p := a.progress()
	m, report, err := offline.Retrain(ctx, d, offline.RetrainOptions{
		EngineOptions: offline.EngineOptions{NewEngine: newEngine(a.engine)}, Spec: spec, Tool: toolName(),
	}, p.report)
	p.close()
	if err != nil {
		return nil, "", err
	}
	name := strings.ReplaceAll(d.Name, string(os.PathSeparator), "-") + ".safetensors"
	path := filepath.Join(o.dir, name)
	if err := m.Save(path); err != nil {
		return nil, "", fail(exitFailure, err, "eusn-stream demo --dir ANOTHER")
	}
	o.keep(path)
	a.say("     wrote %s after %.1f s; regularisation %s", path, report.StateSeconds+report.FitSeconds, m.Training.Alpha)
	m, err = reservoir.Load(path)
	return m, name, err
}
