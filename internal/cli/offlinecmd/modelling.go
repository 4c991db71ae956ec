package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/bench"
)

func newModelling(a *cli.App) *cobra.Command {
	b := benchRun{plan: bench.ModellingPlan()}
	var length int
	cmd := &cobra.Command{
		Use:   "modelling ARCHIVE|CSV...",
		Short: "Predict the next sample of series (modelling, from the journal version of the paper)",
		Long: `Learn to predict each next sample of one-channel series from the reservoir's state,
as in the journal version of the paper: networks of 200 units, a search over 100
configurations, and a ridge regression with alpha 1 on all samples. The first of the
best configurations is drawn 10 times and fitted to the whole training part; the
result is the root mean squared error over the test part. Each model has two
searches: its readout sees the state only, or the state and the sample.

The search learns from 67 % of the training series and measures the error on the
others, with the same division as offline paper. The lists of eusn and esn are the
published ones; those of resn and deepesn, which the published program does not have
here, follow them. "repeating" in the table is the error of predicting the last
sample again.

A file called .csv or .csv.gz is a recording as offline import --csv takes it: each
sequence is a series, and the first two thirds are the training part. One long
sequence needs --length, which cuts it.

Each finished trial becomes a line of JSON in --out at once; after Ctrl-C or a crash
the same command with --resume continues. Results do not depend on the number of
threads.`,
		Example: `  eusn-stream offline modelling adiac.parquet
  eusn-stream offline modelling pump.csv --length 500 --configurations 20
  eusn-stream offline modelling *.parquet --models eusn,esn --out modelling.jsonl --resume --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringSliceVar(&b.plan.Models, "models", b.plan.Models, "models to predict with")
	f.IntVar(&b.plan.Configurations, "configurations", b.plan.Configurations, "how many configurations of the search list to try")
	f.IntVar(&length, "length", 0, "cut sequences of a CSV file into series of N samples, or a few more; 0 = do not cut")
	b.addRun(f, "modelling.jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.settings = bench.NewSettings(bench.Modelling, b.settings.Seed)
		if b.threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", b.threads)
		}
		if length < 0 || length == 1 {
			return fmt.Errorf("--length %d: want 0, or 2 samples and more", length)
		}
		if length > 0 && !slices.ContainsFunc(args, isCSV) {
			return errors.New("--length cuts sequences of CSV files; the series of an archive are not cut")
		}
		if err := b.plan.ValidateModelling(); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, files []string) error { return modelling(ctx, a, files, length, b) })(cmd, args)
	}
	return cmd
}

func modelling(ctx context.Context, a *cli.App, files []string, length int, b benchRun) error {
	if err := checkCanonical(a); err != nil {
		return err
	}
	var sets []*offline.Dataset
	source := map[string]string{} // of each data set, as arguments
	for _, path := range files {
		d, args, err := readSeries(ctx, a, path, length)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return cli.OrInterrupted(err, "nothing was written")
		}
		sets, source[d.Name] = append(sets, d), args
	}
	if err := bench.CheckModelling(sets, b.plan); err != nil {
		return cli.Fail(cli.ExitFailure, err, "another archive") // before there is a results file
	}
	st, err := openBenchResults(b)
	if err != nil {
		return err
	}
	o := bench.ModelOptions{Plan: b.plan, Origin: benchOrigin(), Command: func(m bench.Modelled) string {
		return fmt.Sprintf("eusn-stream offline modelling %s --models %s --configurations %d --draws %d --seed %d",
			source[m.Dataset], m.Model, m.Configurations, m.Draws, b.settings.Seed)
	}}
	o.Threads, o.NewEngine = b.threads, engines.New(a.Engine)
	p := a.Progress()
	o.Progress = p.Report
	all, err := bench.Model(ctx, sets, o, st)
	p.Close()
	if err = errors.Join(err, st.Close()); err != nil {
		return b.ended(err)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Results  string           `json:"results"`
			Settings bench.Settings   `json:"settings"`
			Modelled []bench.Modelled `json:"modelled"`
		}{b.out, b.settings, all})
	}
	a.Say("results in %s", b.out)
	return bench.WriteModelled(a.Stdout, all)
}

func isCSV(path string) bool {
	return strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".csv.gz")
}

// readSeries reads an archive, or a CSV recording as a data set, and gives the
// arguments that name it.
func readSeries(ctx context.Context, a *cli.App, path string, length int) (*offline.Dataset, string, error) {
	args := cli.QuoteForShell(path)
	if !isCSV(path) {
		d, err := archives.Read(path)
		return d, args, err
	}
	if length > 0 {
		args += fmt.Sprintf(" --length %d", length)
	}
	p := a.Progress()
	defer p.Close()
	if err := cli.WholeFile(path); err != nil {
		return nil, args, err
	}
	d, err := offline.ReadCSV(ctx, path, length, p.Report)
	if err == nil && len(d.Series) < 3 {
		err = cli.Fail(cli.ExitFailure, fmt.Errorf("%s has %d sequence(s), want at least 3", path, len(d.Series)), "--length to cut them, or a column end that marks where they end")
	}
	return d, args, err
}
