package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchOptions are the flags of bench. Empty lists mean the default shapes.
type benchOptions struct {
	units, inputs, streams, steps, threads []int
	bank                                   int
	recipes                                []string
	random                                 bool
	only                                   string
	time                                   time.Duration
	partitions                             []int
	batch                                  int
	dir, profile                           string
}

// NewCommand is "bench".
func NewCommand(a *cli.App) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of the engines and of the whole stage on this machine",
		Long: `Measure the engines and the whole stage on this machine, in about two minutes.

Engines. The first rows are the machine's own peak of fused multiply-adds, for each
instruction set of an engine, on one thread and on all threads. Then every shape is
measured many times in turn: a burst of calls, followed by plain multiply-adds of the
same length on the same number of threads. Rates are medians over the bursts. The
share of the peak is the median of the paired ratios, because other programs disturb
it less than the rates. Floating-point operations count as 2 N (N + X) per sample and
member; tanh, bias, update and features are computed but not counted. ns x cores is
the time of a sample of one stream times the threads. Rows of standard, large, small,
tiny and v1 are the banks of those names, those of "offline retrain --bank".

"of issue" is for the banks of kind mixed, where products are less than half of the
work: all vector operations that a sample needs at least (issue_operations, counted in
lanes from the drawn bank; no loads and stores), relative to as many multiply-adds on
the same threads. More than 100 % is possible: a core may issue other operations beside
its multiply-adds.

Stage. An embedded server with file storage, messages of 1,000 rows of 6 channels
from 512 producers, a network of 100 units, or each bank of --recipe, and a prediction
for every message.
rows_per_s: the rate at which the stage processes a stored backlog, from stored
message to committed prediction. engine_share: that rate relative to engines without
a stage on the same cores, measured just before and after: one engine per core, with
calls of 1,000 samples of 64 streams from memory, including the scores.
engine_time_share: time in engine calls relative to the time of all cores. p50_ms and
p99_ms: time from the moment when a message was due to be published until its
prediction can be read from the output, at half of the measured rate.

Energy (GPUs only). After the rates, each shape runs without a pause for --time, at
least a second, between two readings of the card's energy counter (NVML).
joules_per_mstep is the energy of a million steps of a stream, watts the mean power;
both include everything else that the card does. If the counter cannot be read, both
are absent and energy says why.

--json prints one JSON object per line; its field bench is peak, engine or stage.
Flags that take lists (50,100) measure every combination. --engine auto measures
every CPU engine of this machine; generic only at one small shape, and not at shapes
that you choose.`,
		Example: `  eusn-stream bench
  eusn-stream bench --only engine --units 100 --inputs 6 --streams 1024 --steps 128 --threads 1 --json
  eusn-stream bench --only engine --recipe standard,tiny --inputs 2,12 --streams 1,16 --steps 1,32
  eusn-stream bench --only engine --bank 40 --units 50 --inputs 4
  eusn-stream bench --only stage --partitions 1,8 --dir /data/scratch --profile stage
  eusn-stream bench --only stage --recipe standard,small`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.units, "units", nil, "units of the network, or of each member of a bank")
	f.IntSliceVar(&o.inputs, "inputs", nil, "inputs after the transform; with --bank and --recipe half of them are differences, so an even number, twice that of the channels (default with --recipe 2: one channel)")
	f.IntSliceVar(&o.streams, "streams", nil, "streams per call")
	f.IntSliceVar(&o.steps, "steps", nil, "samples per stream and call")
	f.IntSliceVar(&o.threads, "threads", nil, fmt.Sprintf("threads of the engine (default 1 and all, here %d)", runtime.GOMAXPROCS(0)))
	f.IntVar(&o.bank, "bank", 0, "members of a bank with all features; 0: one network as in the paper")
	f.StringSliceVar(&o.recipes, "recipe", nil, "banks by name, with all features: "+strings.Join(reservoir.Banks, ", ")+" (default 16 streams, 32 samples)")
	f.BoolVar(&o.random, "random", false, "streams in random order, so that memory access is random")
	f.StringVar(&o.only, "only", "", "measure only this: engine or stage")
	f.DurationVar(&o.time, "time", time.Second, "measuring time per row of results")
	f.IntSliceVar(&o.partitions, "partitions", []int{1, 8}, "partitions of the stage")
	f.IntVar(&o.batch, "batch", pipeline.DefaultRowBudget, "rows that close a batch of the stage (stage.rows of its configuration)")
	f.StringVar(&o.dir, "dir", "", "folder for the stage's server; empty: the system's temporary folder")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of the working stage to PROFILE-<partitions>.pprof, for go tool pprof")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) error { return bench(ctx, a, &o) })(cmd, args)
	}
	return cmd
}

// check refuses what cannot be measured. Further bounds are the network's own.
func (o *benchOptions) check() error {
	if o.only != "" && o.only != "engine" && o.only != "stage" {
		return fmt.Errorf("--only %s: want engine or stage", o.only)
	}
	if o.time <= 0 || o.time > time.Hour {
		return fmt.Errorf("--time %v: want more than 0, at most 1h", o.time)
	}
	if o.bank < 0 {
		return fmt.Errorf("--bank %d: want 0 or more members", o.bank)
	}
	for _, name := range o.recipes {
		if !slices.Contains(reservoir.Banks, name) {
			return fmt.Errorf("--recipe %q: want some of %s", name, strings.Join(reservoir.Banks, ", "))
		}
	}
	if len(o.recipes) > 0 && (o.bank > 0 || len(o.units) > 0) {
		return errors.New("--recipe has its own members and units: leave --bank and --units out")
	}
	for _, list := range []struct {
		flag   string
		values []int
		most   int
	}{
		{"--units", o.units, 8192}, {"--inputs", o.inputs, 4096}, {"--streams", o.streams, 1 << 24},
		{"--steps", o.steps, 1 << 20}, {"--threads", o.threads, 1024}, {"--partitions", o.partitions, 4096},
		{"--batch", []int{o.batch}, 1 << 24},
	} {
		for _, v := range list.values {
			if v < 1 || v > list.most {
				return fmt.Errorf("%s %d: want 1 to %d", list.flag, v, list.most)
			}
			if (o.bank > 0 || len(o.recipes) > 0) && list.flag == "--inputs" && v%2 != 0 {
				return fmt.Errorf("--inputs %d of a bank: want an even number, half of them are differences", v)
			}
		}
	}
	engines := *o
	engines.recipes = nil // these the stage has, too
	if o.only == "stage" && engines.shaped() {
		return errors.New("--only stage: its network is one of 100 units or a bank of --recipe, so --units, --inputs, --streams, --steps, --threads, --bank and --random do not apply")
	}
	return nil
}

// shaped reports whether a flag asks for engines in particular.
func (o *benchOptions) shaped() bool { return len(o.threads) > 0 || o.reshaped() }

// reshaped reports whether a flag asks for other shapes than the default ones.
func (o *benchOptions) reshaped() bool {
	return o.bank > 0 || len(o.recipes) > 0 || o.random || len(o.units)+len(o.inputs)+len(o.streams)+len(o.steps) > 0
}

// bench measures what is asked for and prints it, also what there is when ctx
// ends.
func bench(ctx context.Context, a *cli.App, o *benchOptions) error {
	out := &benchPrinter{app: a}
	err := benchAll(ctx, a, o, out)
	if out.rows == 0 {
		return cli.OrInterrupted(err, "nothing was measured")
	}
	return cli.OrInterrupted(err, "the %d rows measured before are printed", out.rows)
}

func benchAll(ctx context.Context, a *cli.App, o *benchOptions, out *benchPrinter) error {
	if o.only != "stage" {
		if err := benchEngines(ctx, a, o, out); err != nil {
			return err
		}
	}
	// Shapes of engines say nothing of the stage: asking for some asks for
	// engines alone.
	if o.only == "engine" || o.only == "" && o.shaped() {
		return nil
	}
	recipes := o.recipes
	if len(recipes) == 0 {
		recipes = []string{""}
	}
	for _, recipe := range recipes {
		for _, partitions := range o.partitions {
			row, err := benchStage(ctx, a, o, recipe, partitions)
			if err != nil {
				return err
			}
			if err := out.stage(row); err != nil {
				return err
			}
		}
	}
	return nil
}
