package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/bench"
)

func newOfflineModel(a *app) *cobra.Command {
	b := benchRun{plan: bench.ModellingPlan()}
	cmd := &cobra.Command{
		Use:   "model ARCHIVE...",
		Short: "Predict the next sample of series (the journal version's modelling)",
		Long: `Learn to predict each next sample of series of one channel from the reservoir's
state, as the paper's journal version does: networks of 200 units, 100
configurations tried, a ridge regression with alpha 1 on all samples, 10 draws of
the first of the best fitted to the whole training part, and the root mean squared
error over the test part. Each model is searched twice: its readout sees the state
alone, or the sample, too.

The search learns from 67 % of the training series and asks the others, divided as
offline bench divides them. The lists of eusn and esn are the published ones;
resn and deepesn, which the published program does not model with, continue them.
"repeating" in the table is the error of predicting that the last sample comes
again.

Each finished trial is a line of JSON in --out at once; after Ctrl-C or a crash
the same command with --resume goes on. Results do not depend on the number of
threads.`,
		Example: `  eusn-stream offline model adiac.parquet
  eusn-stream offline model *.parquet --models eusn,esn --out modelling.jsonl --resume --json`,
		Args: cobra.MinimumNArgs(1),
	}
	f := cmd.Flags()
	f.StringSliceVar(&b.plan.Models, "models", b.plan.Models, "models to predict with")
	f.IntVar(&b.plan.Configurations, "configurations", b.plan.Configurations, "how many of the search list to try")
	b.addRun(f, "modelling.jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.settings = bench.NewSettings(bench.Modelling, b.settings.Seed)
		if b.threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", b.threads)
		}
		if err := b.plan.ValidateModelling(); err != nil {
			return err
		}
		return a.do(func(ctx context.Context, archives []string) error { return a.offlineModel(ctx, archives, b) })(cmd, args)
	}
	return cmd
}

func (a *app) offlineModel(ctx context.Context, archives []string, b benchRun) error {
	if err := a.checkCanonical(); err != nil {
		return err
	}
	var sets []*offline.Dataset
	archive := map[string]string{}
	for _, path := range archives {
		d, err := readArchive(path)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		sets, archive[d.Name] = append(sets, d), path
	}
	if err := bench.CheckModelling(sets, b.plan); err != nil {
		return err // before there is a results file
	}
	st, err := openBenchResults(b)
	if err != nil {
		return err
	}
	o := bench.ModelOptions{Plan: b.plan, Origin: benchOrigin(), Command: func(m bench.Modelled) string {
		return fmt.Sprintf("eusn-stream offline model %s --models %s --configurations %d --draws %d --seed %d",
			quoteForShell(archive[m.Dataset]), m.Model, m.Configurations, m.Draws, b.settings.Seed)
	}}
	o.Threads, o.NewEngine = b.threads, newEngine(a.engine)
	p := a.progress()
	o.Progress = p.report
	all, err := bench.Model(ctx, sets, o, st)
	p.close()
	if err = errors.Join(err, st.Close()); err != nil {
		return orInterrupted(err, "what is finished is in %s, and the same command with --resume goes on from there", b.out)
	}
	if a.json {
		return a.printJSON(struct {
			Results  string           `json:"results"`
			Settings bench.Settings   `json:"settings"`
			Modelled []bench.Modelled `json:"modelled"`
		}{b.out, b.settings, all})
	}
	a.say("results in %s", b.out)
	return bench.WriteModelled(a.stdout, all)
}
