package bench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

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
tiny and euler are the banks of those names, those of "train --members".

"of issue" is for the banks of kind mixed, where products are less than half of the
work: all vector operations that a sample needs at least (issue_operations, counted in
lanes from the drawn bank; no loads and stores), relative to as many multiply-adds on
the same threads. More than 100 % is possible: a core may issue other operations beside
its multiply-adds.

Stage. An embedded server with file storage, messages of 1,000 rows of 6 channels
from 512 producers, a network of 100 units, or each bank of --bank, and a prediction
for every message.
rows_per_s: the rate at which the stage processes a stored backlog, from stored
message to committed prediction. engine_share: that rate relative to engines without
a stage on the same cores, measured just before and after: one engine per core, with
calls of 1,000 samples of 64 streams from memory, including the scores.
engine_time_share: time in engine calls relative to the time of all cores. p50_ms and
p99_ms: time from the moment when a message was due to be published until its
prediction can be read from the output, at half of the measured rate.

Small messages (only with --only messages). Messages of --rows rows, a prediction for
each, compared with plain JetStream: the same bytes and headers, published by the same
asynchronous publisher with 512 messages under way, and read by one ordered consumer.
Both run in this process with the same embedded server, in turns, --rounds times; every
figure is the median of the rounds. cpu: CPU time of this process for a message,
publisher and server included; ratio is that of plain JetStream relative to that of the
stage. This ratio does not depend on what else the machine does, but rates do. latency:
200 producers of 10 messages a second, with stage.latency 5ms and 1ms. half: latency at
half of the rate that cpu has measured. backlog: how fast stored messages are worked
off, from the start of the stage, and the ratio to a job with 64 partitions. --part chooses among them.

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
  eusn-stream bench --only engine --bank standard,tiny --inputs 2,12 --streams 1,16 --steps 1,32
  eusn-stream bench --only engine --members 40 --units 50 --inputs 4
  eusn-stream bench --only stage --partitions 1,8 --dir /data/scratch --profile stage
  eusn-stream bench --only stage --bank standard,small
  eusn-stream bench --only messages --part cpu --rows 10 --partitions 8,16,64`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	o.addFlags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.only == onlyMessages && !f.Changed("partitions") {
			o.partitions = []int{pipeline.EmbeddedPartitions}
		}
		if err := o.checkOptions(); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) error { return bench(ctx, a, &o) })(cmd, args)
	}
	return cmd
}

func (o *benchOptions) addFlags(f *pflag.FlagSet) {
	f.IntSliceVar(&o.units, "units", nil, "units of the network, or of each member of a bank")
	f.IntSliceVar(&o.inputs, "inputs", nil, "inputs after the transform; with --members and --bank half of them are differences, so an even number, twice that of the channels (default with --bank 2: one channel)")
	f.IntSliceVar(&o.streams, "streams", nil, "streams per call")
	f.IntSliceVar(&o.steps, "steps", nil, "samples per stream and call")
	f.IntSliceVar(&o.threads, "threads", nil, fmt.Sprintf("threads of the engine (default 1 and all, here %d)", runtime.GOMAXPROCS(0)))
	f.IntVar(&o.bank, "members", 0, "members of a bank with all features; 0: one network as in the paper")
	f.StringSliceVar(&o.recipes, "bank", nil, "banks by name, with all features: "+strings.Join(reservoir.Banks, ", ")+" (default 16 streams, 32 samples)")
	f.BoolVar(&o.random, "random", false, "streams in random order, so that memory access is random")
	f.StringVar(&o.only, "only", "", "measure only this: engine, stage or messages")
	f.IntSliceVar(&o.rows, "rows", []int{1, 10, 100}, "rows of a message, with --only messages")
	f.StringSliceVar(&o.parts, "part", nil, "what to measure with --only messages: "+strings.Join(messageParts, ", ")+" (default: all)")
	f.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement, with --only messages")
	f.DurationVar(&o.time, "time", time.Second, "measuring time per row of results")
	f.IntSliceVar(&o.partitions, "partitions", []int{1, 8}, "partitions of the stage (default with --only messages: 8)")
	f.IntVar(&o.batch, "batch", pipeline.Defaults().RowBudget, "rows that close a batch of the stage (stage.rows of its configuration)")
	f.StringVar(&o.dir, "dir", "", "folder for the stage's server; empty: the system's temporary folder")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of the working stage to PROFILE-<partitions>.pprof, for go tool pprof")
}

// bench runs the requested measurements and prints the results, also partial results when ctx ends.
func bench(ctx context.Context, a *cli.App, o *benchOptions) error {
	out := &benchPrinter{app: a}
	err := benchAll(ctx, a, o, out)
	if out.rows == 0 {
		return cli.OrInterrupted(err, "nothing was measured")
	}
	return cli.OrInterrupted(err, "the %d rows measured before are printed", out.rows)
}

func benchAll(ctx context.Context, a *cli.App, o *benchOptions, out *benchPrinter) error {
	if o.only == onlyMessages {
		return benchMessages(ctx, a, o, out)
	}
	if o.only != "stage" {
		if err := benchEngines(ctx, a, o, out); err != nil {
			return err
		}
	}
	// Shapes of engines do not apply to the stage: a request for shapes measures only engines.
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
