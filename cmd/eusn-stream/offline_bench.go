package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/bench"
)

// offlineBenchFlags are the flags of offline bench.
type offlineBenchFlags struct {
	archives, models []string
	protocol, out    string
	settings         bench.Settings
	threads          int
	resume, gate     bool
}

func newOfflineBench(a *app) *cobra.Command {
	var b offlineBenchFlags
	var configurations, draws int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "bench ARCHIVE...",
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
  --protocol bank         no search: the default bank in one pass, 10 draws

Each finished trial is a line of JSON in --out at once; after Ctrl-C or a crash
the same command with --resume goes on. Results do not depend on the number of
threads. --gate exits with 6 where an accuracy is further from the paper's than
twice the larger standard deviation, or .02 where that is more (best and bank:
where it is that much lower).`,
		Example: `  eusn-stream offline bench adiac.parquet
  eusn-stream offline bench *.parquet --protocol bank --out bank.jsonl --json
  eusn-stream offline bench adiac.parquet --models eusn --out adiac.jsonl --resume --gate`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&b.protocol, "protocol", string(bench.PaperExact), "paper-exact, best or bank")
	f.StringSliceVar(&b.models, "models", bench.PaperModels, "reservoirs to bench; the bank is the one model of its protocol")
	f.IntVar(&configurations, "configurations", bench.MaxConfigurations, "how many of the paper's search list to try")
	f.IntVar(&draws, "draws", 10, "drawings of the weights of the chosen configuration")
	f.Uint64Var(&seed, "seed", offline.DefaultSeed, "first seed of the weights")
	f.StringVarP(&b.out, "out", "o", "bench.jsonl", "results file, one line of JSON each")
	f.BoolVar(&b.resume, "resume", false, "go on with the results file where it exists")
	f.BoolVar(&b.gate, "gate", false, "exit with 6 where a result leaves the tolerance of the paper")
	f.IntVar(&b.threads, "threads", 0, "cores to use; 0 = all. The results do not depend on it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.archives = args
		b.settings = bench.DefaultSettings(bench.Protocol(b.protocol))
		b.settings.Draws, b.settings.Seed = draws, seed
		if b.settings.Protocol != bench.Bank {
			b.settings.Configurations = configurations
		} else if f.Changed("configurations") || f.Changed("models") {
			return errors.New("--protocol bank searches nothing and has one model: give neither --configurations nor --models with it")
		}
		if b.threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", b.threads)
		}
		if err := b.settings.Validate(); err != nil {
			return err
		}
		for _, m := range b.models {
			if !slices.Contains(bench.PaperModels, m) {
				return fmt.Errorf("--models %s: want some of %s", m, strings.Join(bench.PaperModels, ", "))
			}
		}
		return a.do(func(ctx context.Context, _ []string) error { return a.offlineBench(ctx, b) })(cmd, args)
	}
	return cmd
}

func (a *app) offlineBench(ctx context.Context, b offlineBenchFlags) error {
	var sets []*offline.Dataset
	archive := map[string]string{}
	for _, path := range b.archives {
		d, err := readArchive(path)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sets, archive[d.Name] = append(sets, d), path
	}
	if err := bench.Check(sets, b.models, b.settings); err != nil {
		return err // before there is a results file
	}
	st, err := openBenchResults(b)
	if err != nil {
		return err
	}
	o := bench.Options{Models: b.models, Command: func(dataset, model string) string { return b.command(archive[dataset], model) }}
	o.Threads, o.NewEngine = b.threads, newEngine(a.engine)
	p := a.progress()
	o.Progress = p.report
	cells, err := bench.Run(ctx, sets, o, st)
	p.close()
	if err = errors.Join(err, st.Close()); err != nil {
		return orInterrupted(err, "what is finished is in %s, and the same command with --resume goes on from there", b.out)
	}
	return a.printBenchCells(b, st, cells)
}

// openBenchResults begins the results file, or goes on with it.
func openBenchResults(b offlineBenchFlags) (*bench.Store, error) {
	open := bench.Create
	if b.resume {
		open = bench.Resume
	}
	st, err := open(b.out, b.settings)
	var other *bench.SettingsError
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fail(exitFailure, fmt.Errorf("%s exists and is left as it is", b.out), "the same command with --resume, or another --out")
	case errors.As(err, &other):
		return nil, fail(exitFailure, err, "another --out")
	}
	return st, err
}

// command is the command line that reproduces one cell.
func (b offlineBenchFlags) command(archive, model string) string {
	s := b.settings
	args := []string{"eusn-stream offline bench", quoteForShell(archive), "--protocol", string(s.Protocol)}
	if s.Protocol != bench.Bank {
		args = append(args, "--models", model, "--configurations", fmt.Sprint(s.Configurations))
	}
	return strings.Join(append(args, "--draws", fmt.Sprint(s.Draws), "--seed", fmt.Sprint(s.Seed)), " ")
}

// quoteForShell quotes a path where a shell would take it apart.
func quoteForShell(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$`*?[]{}()<>|&;!#~", r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// offlineBenchRow is one cell with what the paper says of it.
type offlineBenchRow struct {
	bench.Cell
	Verdict *bench.Verdict `json:"verdict,omitempty"`
}

func (a *app) printBenchCells(b offlineBenchFlags, st *bench.Store, cells []bench.Cell) error {
	var rows []offlineBenchRow
	var outside []string
	for _, c := range cells {
		row := offlineBenchRow{Cell: c}
		if v, ok := st.Judge(c); ok {
			row.Verdict = &v
			if v.Gated && !v.Within {
				outside = append(outside, fmt.Sprintf("%s %s %.3f, paper %.3f, tolerance %.3f", c.Dataset, c.Model, c.Accuracy, v.Paper.Accuracy, v.Tolerance))
			}
		}
		rows = append(rows, row)
	}
	var err error
	if a.json {
		err = a.printJSON(struct {
			Results  string            `json:"results"`
			Settings bench.Settings    `json:"settings"`
			Cells    []offlineBenchRow `json:"cells"`
		}{b.out, b.settings, rows})
	} else {
		err = bench.WriteTable(a.stdout, st, cells)
		a.say("results in %s", b.out)
	}
	if err == nil && b.gate && len(outside) > 0 {
		err = fail(exitTolerance, fmt.Errorf("outside the tolerance of the paper: %s", strings.Join(outside, "; ")), "")
	}
	return err
}
