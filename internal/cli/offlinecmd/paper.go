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
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchRun is a request to offline paper, memory and compare.
type benchRun struct {
	settings     paper.Settings
	plan         paper.Plan
	out          string
	threads      int
	listLength   int
	leastRate    float64
	resume, gate bool
}

func (b *benchRun) addFlags(f *pflag.FlagSet, out string) {
	b.plan = paper.PaperPlan()
	f.StringSliceVar(&b.plan.Models, "models", paper.PaperModels, "models to run; also deepesn, and the trained models rnn, arnn and gru")
	f.IntVar(&b.plan.Configurations, "configurations", paper.MaxConfigurations, "how many configurations of the paper's search list to try")
	f.DurationVar(&b.plan.Budget, "budget", paper.PaperBudget, "training time for the search of one trained model on one data set; 0 = no limit")
	f.IntVar(&b.plan.Epochs, "epochs", paper.PaperEpochs, "most epochs of a trained model")
	b.addRun(f, out)
}

// addRun adds the flags of every search with a results file.
func (b *benchRun) addRun(f *pflag.FlagSet, out string) {
	f.IntVar(&b.plan.Draws, "draws", 10, "random draws of the weights of the chosen configuration")
	f.Uint64Var(&b.settings.Seed, "seed", reservoir.DefaultSeed, "first seed of the weights")
	f.StringVarP(&b.out, "output", "o", out, "results file, one line of JSON per result")
	f.BoolVar(&b.resume, "resume", false, "continue the results file if it exists, also with more draws, models or data sets")
	f.IntVar(&b.threads, "threads", 0, "cores to use; 0 = all. The results do not depend on it")
}

// checkRun completes the settings and checks the flags against each other.
func (b *benchRun) checkRun(f *pflag.FlagSet, protocol paper.Protocol) error {
	b.settings = paper.NewSettings(protocol, b.settings.Seed)
	b.settings.LeastRate = b.leastRate
	if protocol == paper.Bank {
		for _, name := range []string{"configurations", "models", "budget", "epochs", "list-length", "least-rate"} {
			if f.Changed(name) {
				return fmt.Errorf("--protocol bank has no search and one model: do not give --%s with it", name)
			}
		}
		b.plan.Models, b.plan.Configurations = []string{paper.BankModel}, 0
	}
	if b.threads < 0 {
		return fmt.Errorf("--threads %d: want 0 or more", b.threads)
	}
	if f.Changed("list-length") {
		if b.listLength < 1 {
			return fmt.Errorf("--list-length %d: want 1 to %d", b.listLength, paper.MaxConfigurations)
		}
		if b.listLength != paper.MaxConfigurations { // the length in files without the setting
			b.settings.ListLength = b.listLength
		}
		if !f.Changed("configurations") {
			b.plan.Configurations = b.listLength
		}
	}
	return b.plan.Validate(b.settings)
}

// newTables makes the command "offline paper tables".
func newTables(a *cli.App) *cobra.Command {
	var b benchRun
	var protocol string
	cmd := &cobra.Command{
		Use:   "tables DATA...",
		Short: "Rerun the paper's experiments on archives",
		Long: `Run data sets x models x random search x draws, as in the paper, and print the
results next to the published ones.

  --protocol paper-exact  the published experiments: the training part split 67/33
                          again, 200 configurations of the paper's own search
                          lists, alpha 1, zeros in front of short series, the
                          first of the best wins, 10 draws fitted to the 67 %
  --protocol best         the same search, but each series keeps its length,
                          leave-one-out chooses alpha, and the draws are fitted to
                          the whole training part
  --protocol bank         no search: the default bank in one pass, 10 draws;
                          leave-one-out chooses alpha and the kind of readout
                          (ridge classifier or linear discriminant)

The search lists of eusn, esn and resn come one after the other from one sequence of
random numbers. When a search of the paper ended after ten hours (MNIST, after 133
to 152 configurations), the next list began earlier: --list-length 140.

deepesn is the reservoir that the journal version of the paper adds: 2 to 5 layers
of leaky ESNs, all of them read by the classifier.

rnn, arnn (the paper's A-RNN) and gru are fully trained networks: they learn from
the 67 % and stop when the loss over the others has not fallen for 50 epochs. Their
search tries one configuration after the other until --budget is used up (several
threads try somewhat more); a configuration that is not finished by then does not
count. If none finishes, the model has no result: the table says so, the exit code
is 1, and the other models continue.

Energy is measured if the machine allows it: the processor's with RAPL, and for a GPU
engine also the cards' with NVML. The table shows the gross energy and, in brackets,
the part above idle power, which is measured for 5 s before the first trial. The
energy includes that of other programs.

Each finished trial becomes a line of JSON in --output at once; after Ctrl-C or a crash
the same command with --resume continues. Results do not depend on the number of
threads. --gate exits with 6 if an accuracy differs from the paper's by more than
twice the larger standard deviation, or by more than .02 if that is larger (best and
bank: if it is that much lower). A result that passes only because of our own
deviation is marked.`,
		Example: `  eusn-stream offline paper tables adiac.parquet
  eusn-stream offline paper tables *.parquet --protocol bank --output bank.jsonl --json
  eusn-stream offline paper tables adiac.parquet --models eusn --output adiac.jsonl --resume --gate
  eusn-stream offline paper tables adiac.parquet --models eusn,arnn,gru --budget 10m --epochs 300 --draws 3`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&protocol, "protocol", string(paper.PaperExact), "paper-exact, best or bank")
	f.BoolVar(&b.gate, "gate", false, "exit with 6 if a result is outside the tolerance of the paper")
	b.addFlags(f, "paper.jsonl")
	f.Float64Var(&b.leastRate, "least-rate", 0, "of rnn, arnn and gru: leave configurations of a smaller learning rate out of their lists")
	f.IntVar(&b.listLength, "list-length", paper.MaxConfigurations, "configurations in each reservoir's search list; the next list begins after them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := b.checkRun(f, paper.Protocol(protocol)); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, paths []string) error { return runPaper(ctx, a, paths, b) })(cmd, args)
	}
	return cmd
}

func runPaper(ctx context.Context, a *cli.App, paths []string, b benchRun) error {
	var sets []*archive.Dataset
	archive := map[string]string{}
	for _, path := range paths {
		d, err := archives.Read(path)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		sets, archive[d.Name] = append(sets, d), path
	}
	done, err := runBench(ctx, a, sets, b, func(dataset string) string {
		return "tables " + cli.QuoteForShell(archive[dataset]) + " --protocol " + string(b.settings.Protocol)
	})
	if err != nil {
		return err
	}
	return printBenchCells(a, b, done)
}

// runBench computes the requested cells that are missing in the results file. of is the part of the command line that
// names a data set.
func runBench(ctx context.Context, a *cli.App, sets []*archive.Dataset, b benchRun, of func(dataset string) string) (done benchDone, err error) {
	if err := checkCanonical(a); err != nil {
		return done, err
	}
	if err := paper.Check(sets, b.plan, b.settings); err != nil {
		return done, cli.Fail(cli.ExitFailure, err, "another archive") // before a results file exists
	}
	done.store, err = openBenchResults(b)
	if err != nil {
		return done, err
	}
	meters := meterEnergy(a.Engine)
	o := paper.Options{Plan: b.plan, Energy: meters.accounts, Idle: idleTime, Command: func(c paper.Cell) string { return b.command(of(c.Dataset), c) }}
	o.Origin = benchOrigin()
	o.Threads, o.NewEngine = b.threads, engines.New(a.Engine)
	p := a.Progress()
	o.Progress = p.Report
	done.cells, err = paper.Run(ctx, sets, o, done.store)
	p.Close()
	meters.end(done.cells)
	done.unmeasured = meters.unmeasured
	err = errors.Join(err, done.store.Close())
	return done, b.ended(err)
}

// ended reports the state after a run, with advice if its results do not belong to the results of the file.
func (b benchRun) ended(err error) error {
	var other *paper.SettingsError
	if errors.As(err, &other) {
		return cli.Fail(cli.ExitFailure, err, "another --output")
	}
	return cli.OrInterrupted(err, "finished results are in %s; the same command with --resume continues from there", b.out)
}

// benchDone is a completed bench.
type benchDone struct {
	store      *paper.Store
	cells      []paper.Cell
	unmeasured []string // missing energy measurements, with reasons
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
	return cli.Fail(cli.ExitFailure, fmt.Errorf("no result for %s", strings.Join(list, "; ")), "the same command with --resume and a larger --budget; finished results are kept")
}

// checkCanonical requires an engine of the promised bits: results of both kinds must not meet in one file.
func checkCanonical(a *cli.App) error {
	if s := engines.OtherBits(a.Engine); s != "" {
		return cli.Fail(cli.ExitUsage, fmt.Errorf("--engine %s: the experiments use the canonical arithmetic; %s", a.Engine, s), "--engine gpu")
	}
	return nil
}

// benchOrigin is noted in results files.
func benchOrigin() *paper.Origin {
	return &paper.Origin{
		Program: cli.ToolName() + ", " + runtime.Version(), Machine: hardware.MachineName(), Began: time.Now().UTC().Format(time.RFC3339),
	}
}

// openBenchResults begins or continues the results file.
func openBenchResults(b benchRun) (*paper.Store, error) {
	open := paper.Create
	if b.resume {
		if err := cli.WholeFile(b.out); err != nil {
			return nil, err
		}
		open = paper.Resume
	}
	st, err := open(b.out, b.settings)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s exists and was not changed", b.out), "the same command with --resume to continue it, or another --output")
	case errors.Is(err, paper.ErrInUse):
		return nil, cli.Fail(cli.ExitFailure, err, "wait until that run has ended, or choose another --output")
	}
	return st, cli.Fail(cli.ExitFailure, err, "another --output")
}

// command returns the command line that reproduces a cell.
func (b benchRun) command(of string, cell paper.Cell) string {
	c := "eusn-stream offline paper " + of
	switch b.settings.Protocol {
	case paper.Bank:
	case paper.Compare:
		c += " --bank " + cell.Model
	default:
		c += fmt.Sprintf(" --models %s --configurations %d", cell.Model, cell.Configurations)
		if n := b.settings.ListLength; n > 0 {
			c += fmt.Sprintf(" --list-length %d", n)
		}
		if rate := b.settings.LeastRate; rate > 0 {
			c += fmt.Sprintf(" --least-rate %g", rate)
		}
	}
	if epochs := cell.Training.Epochs; epochs > 0 { // the configurations tried within the budget
		c += fmt.Sprintf(" --epochs %d --budget 0", epochs)
	}
	return c + fmt.Sprintf(" --draws %d --seed %d", b.plan.Draws, b.settings.Seed)
}

// PaperRow is a cell with the paper's result.
type PaperRow struct {
	paper.Cell
	Verdict *paper.Verdict `json:"verdict,omitempty"`
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
			Settings   paper.Settings `json:"settings"`
			Cells      []PaperRow     `json:"cells"`
			Unmeasured []string       `json:"unmeasured,omitempty"`
		}{b.out, b.settings, rows, done.unmeasured})
	} else {
		err = paper.WriteTable(a.Stdout, done.store, done.cells)
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
