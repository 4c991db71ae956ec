package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/hardware"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/bench"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchRun is what offline paper and offline memory are asked for.
type benchRun struct {
	settings     bench.Settings
	plan         bench.Plan
	out          string
	threads      int
	listLength   int
	resume, gate bool
}

func (b *benchRun) add(f *pflag.FlagSet, out string) {
	b.plan = bench.PaperPlan()
	f.StringSliceVar(&b.plan.Models, "models", bench.PaperModels, "models to bench; also deepesn, and the trained ones rnn, arnn and gru")
	f.IntVar(&b.plan.Configurations, "configurations", bench.MaxConfigurations, "how many of the paper's search list to try")
	f.DurationVar(&b.plan.Budget, "budget", bench.PaperBudget, "time of training for the search of one trained model on one data set; 0 = no end")
	f.IntVar(&b.plan.Epochs, "epochs", bench.PaperEpochs, "longest training of a trained model, in epochs")
	b.addRun(f, out)
}

// addRun adds the flags of every search that goes into a results file.
func (b *benchRun) addRun(f *pflag.FlagSet, out string) {
	f.IntVar(&b.plan.Draws, "draws", 10, "drawings of the weights of the chosen configuration")
	f.Uint64Var(&b.settings.Seed, "seed", reservoir.DefaultSeed, "first seed of the weights")
	f.StringVarP(&b.out, "out", "o", out, "results file, one line of JSON each")
	f.BoolVar(&b.resume, "resume", false, "go on with the results file where it exists, also with more draws, models or sets")
	f.IntVar(&b.threads, "threads", 0, "cores to use; 0 = all. The results do not depend on it")
}

// check completes the settings and holds the flags against each other.
func (b *benchRun) check(f *pflag.FlagSet, protocol bench.Protocol) error {
	b.settings = bench.NewSettings(protocol, b.settings.Seed)
	if protocol == bench.Bank {
		for _, name := range []string{"configurations", "models", "budget", "epochs", "list-length"} {
			if f.Changed(name) {
				return fmt.Errorf("--protocol bank searches nothing and has one model: do not give --%s with it", name)
			}
		}
		b.plan.Models, b.plan.Configurations = []string{bench.BankModel}, 0
	}
	if b.threads < 0 {
		return fmt.Errorf("--threads %d: want 0 or more", b.threads)
	}
	if f.Changed("list-length") {
		if b.listLength < 1 {
			return fmt.Errorf("--list-length %d: want 1 to %d", b.listLength, bench.MaxConfigurations)
		}
		if b.listLength != bench.MaxConfigurations { // which is what files without it have
			b.settings.ListLength = b.listLength
		}
		if !f.Changed("configurations") {
			b.plan.Configurations = b.listLength
		}
	}
	return b.plan.Validate(b.settings)
}

// newPaper is "offline paper"; out is the results file where --out names none.
func newPaper(a *cli.App, out string) *cobra.Command {
	var b benchRun
	var protocol string
	cmd := &cobra.Command{
		Use:   "paper ARCHIVE...",
		Short: "Rerun the paper's experiments on archives",
		Long: `Run data sets x models x random search x draws, as in the paper, and print the
table beside its published figures.

  --protocol paper-exact  the published experiments: the training part split 67/33
                          again, 200 configurations of the paper's own search
                          lists, alpha 1, zeros in front of short series, first
                          best wins, 10 draws fitted to the 67 %
  --protocol best         the same search, but each series taken as long as it is,
                          alpha by leave-one-out, draws fitted to the whole
                          training part
  --protocol bank         no search: the default bank in one pass, 10 draws; alpha
                          and kind of head (ridge classifier or linear
                          discriminant) by leave-one-out

The lists of eusn, esn and resn follow each other in one stream of random
numbers. Where ten hours ended a search of the paper's (MNIST, after 133 to 152
configurations) the lists behind it began earlier: --list-length 140.

deepesn is the reservoir the paper's journal version adds: 2 to 5 layers of
leaky ESNs, all read by the classifier.

rnn, arnn (the paper's A-RNN) and gru are trained whole, on the 67 % and stopped
by the others, 50 epochs without a smaller loss. Their search takes the
configurations in turn until --budget is used up, on several threads somewhat
more; one not finished by then does not count. Where none finishes there is no
result, which the table and the exit code (1) say; other models go on.

Energy is measured where the machine lets us: the processor's by RAPL, of a GPU
engine also the cards' by NVML, gross and, in brackets, above the power at rest,
which is taken for 5 s before the first trial. Other programs' share is in it.

Each finished trial is a line of JSON in --out at once; after Ctrl-C or a crash
the same command with --resume goes on. Results do not depend on the number of
threads. --gate exits with 6 where an accuracy is further from the paper's than
twice the larger standard deviation, or .02 where that is more (best and bank:
where it is that much lower). What holds that by our own deviation alone, and
not by twice the paper's or .02, passes and is marked.`,
		Example: `  eusn-stream offline paper adiac.parquet
  eusn-stream offline paper *.parquet --protocol bank --out bank.jsonl --json
  eusn-stream offline paper adiac.parquet --models eusn --out adiac.jsonl --resume --gate
  eusn-stream offline paper adiac.parquet --models eusn,arnn,gru --budget 10m --epochs 300 --draws 3`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&protocol, "protocol", string(bench.PaperExact), "paper-exact, best or bank")
	f.BoolVar(&b.gate, "gate", false, "exit with 6 where a result leaves the tolerance of the paper")
	b.add(f, out)
	f.IntVar(&b.listLength, "list-length", bench.MaxConfigurations, "configurations in each reservoir's search list; the next one's begins behind")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := b.check(f, bench.Protocol(protocol)); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, paths []string) error { return paper(ctx, a, paths, b) })(cmd, args)
	}
	return cmd
}

func paper(ctx context.Context, a *cli.App, paths []string, b benchRun) error {
	var sets []*offline.Dataset
	archive := map[string]string{}
	for _, path := range paths {
		d, err := archives.Read(path)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		sets, archive[d.Name] = append(sets, d), path
	}
	done, err := runBench(ctx, a, sets, b, func(dataset string) string {
		return "paper " + cli.QuoteForShell(archive[dataset]) + " --protocol " + string(b.settings.Protocol)
	})
	if err != nil {
		return err
	}
	return printBenchCells(a, b, done)
}

// runBench does what is asked for and is not in the results file yet. of is
// the part of the command line that names a data set.
func runBench(ctx context.Context, a *cli.App, sets []*offline.Dataset, b benchRun, of func(dataset string) string) (done benchDone, err error) {
	if err := checkCanonical(a); err != nil {
		return done, err
	}
	if err := bench.Check(sets, b.plan, b.settings); err != nil {
		return done, cli.Fail(cli.ExitFailure, err, "another archive") // before there is a results file
	}
	done.store, err = openBenchResults(b)
	if err != nil {
		return done, err
	}
	meters := meterEnergy(a.Engine)
	o := bench.Options{Plan: b.plan, Energy: meters.accounts, Idle: idleTime, Command: func(c bench.Cell) string { return b.command(of(c.Dataset), c) }}
	o.Origin = benchOrigin()
	o.Threads, o.NewEngine = b.threads, engines.New(a.Engine)
	p := a.Progress()
	o.Progress = p.Report
	done.cells, err = bench.Run(ctx, sets, o, done.store)
	p.Close()
	meters.end(done.cells)
	done.unmeasured = meters.unmeasured
	err = errors.Join(err, done.store.Close())
	return done, b.ended(err)
}

// ended says what there is after a run, and what to do where its results do not
// belong to those of the file.
func (b benchRun) ended(err error) error {
	var other *bench.SettingsError
	if errors.As(err, &other) {
		return cli.Fail(cli.ExitFailure, err, "another --out")
	}
	return cli.OrInterrupted(err, "what is finished is in %s, and the same command with --resume goes on from there", b.out)
}

// benchDone is a bench that came to its end.
type benchDone struct {
	store      *bench.Store
	cells      []bench.Cell
	unmeasured []string // what energy lacks, and why
}

// missing is the error of cells without a result.
func (d benchDone) missing() error {
	var list []string
	for _, c := range d.cells {
		if c.Missing != "" {
			list = append(list, fmt.Sprintf("data set %q, %s: %s", c.Dataset, c.Model, c.Missing))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return cli.Fail(cli.ExitFailure, fmt.Errorf("no result of %s", strings.Join(list, "; ")), "the same command with --resume and a larger --budget: what is finished stays")
}

// checkCanonical wants an engine of the promised bits: results of both kinds
// must not meet in one file.
func checkCanonical(a *cli.App) error {
	if s := engines.OtherBits(a.Engine); s != "" {
		return cli.Fail(cli.ExitUsage, fmt.Errorf("--engine %s: the experiments are of the canonical arithmetic; %s", a.Engine, s), "--engine gpu")
	}
	return nil
}

// benchOrigin is noted in results files.
func benchOrigin() *bench.Origin {
	return &bench.Origin{
		Program: cli.ToolName() + ", " + runtime.Version(), Machine: hardware.MachineName(), Began: time.Now().UTC().Format(time.RFC3339),
	}
}

// openBenchResults begins the results file, or goes on with it.
func openBenchResults(b benchRun) (*bench.Store, error) {
	open := bench.Create
	if b.resume {
		if err := cli.WholeFile(b.out); err != nil {
			return nil, err
		}
		open = bench.Resume
	}
	st, err := open(b.out, b.settings)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s exists and is left as it is", b.out), "the same command with --resume, or another --out")
	case errors.Is(err, bench.ErrInUse):
		return nil, cli.Fail(cli.ExitFailure, err, "the same command when that run has ended, or another --out")
	}
	return st, cli.Fail(cli.ExitFailure, err, "another --out")
}

// command is the command line that reproduces one cell.
func (b benchRun) command(of string, cell bench.Cell) string {
	c := "eusn-stream offline " + of
	if b.settings.Protocol != bench.Bank {
		c += fmt.Sprintf(" --models %s --configurations %d", cell.Model, cell.Configurations)
		if n := b.settings.ListLength; n > 0 {
			c += fmt.Sprintf(" --list-length %d", n)
		}
	}
	if epochs := cell.Training.Epochs; epochs > 0 { // the configurations tried are what the budget came to
		c += fmt.Sprintf(" --epochs %d --budget 0", epochs)
	}
	return c + fmt.Sprintf(" --draws %d --seed %d", b.plan.Draws, b.settings.Seed)
}

// PaperRow is one cell with what the paper says of it.
type PaperRow struct {
	bench.Cell
	Verdict *bench.Verdict `json:"verdict,omitempty"`
}

func printBenchCells(a *cli.App, b benchRun, done benchDone) error {
	var rows []PaperRow
	var outside []string
	for _, c := range done.cells {
		row := PaperRow{Cell: c}
		if v, ok := done.store.Judge(c); ok {
			row.Verdict = &v
			if v.Gated && !v.Within {
				outside = append(outside, fmt.Sprintf("%s %s %.3f, paper %.3f, tolerance %.3f", c.Dataset, c.Model, c.Accuracy, v.Paper.Accuracy, v.Tolerance))
			}
		}
		rows = append(rows, row)
	}
	var err error
	if a.JSON {
		err = a.PrintJSON(struct {
			Results    string         `json:"results"`
			Settings   bench.Settings `json:"settings"`
			Cells      []PaperRow     `json:"cells"`
			Unmeasured []string       `json:"unmeasured,omitempty"`
		}{b.out, b.settings, rows, done.unmeasured})
	} else {
		err = bench.WriteTable(a.Stdout, done.store, done.cells)
		for _, why := range done.unmeasured {
			a.Say("%s", why)
		}
		a.Say("results in %s", b.out)
	}
	if err == nil {
		err = done.missing()
	}
	if err == nil && b.gate && len(outside) > 0 {
		err = cli.Fail(cli.ExitTolerance, fmt.Errorf("outside the tolerance of the paper: %s", strings.Join(outside, "; ")), "")
	}
	return err
}
