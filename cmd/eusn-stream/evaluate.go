package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func newEvaluate(a *app) *cobra.Command {
	var archive, model, predictions string
	var least float64
	var part bool // --split was given
	o := offline.EvaluateOptions{Split: offline.Test}
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Predict a part of an archive and count what is right",
		Long: `Predict every series of one part of an archive where the live stage would, cut by
the model's policy, and print accuracy, balanced accuracy and the confusion matrix
of the sequences; early predictions are counted apart. A recording is evaluated
whole; a sequence counts where all its samples have one label. The scores are bit
for bit those the live stage gives.`,
		Example: `  eusn-stream offline evaluate --model adiac.safetensors --archive Adiac.parquet
  eusn-stream offline evaluate --model m.safetensors --archive a.parquet --min-accuracy 0.74   # for a CI job`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&archive, "archive", "", "Parquet archive")
	f.StringVar(&model, "model", "model.safetensors", "model file")
	f.StringVar((*string)(&o.Split), "split", string(offline.Test), "part of a data set to predict: train or test")
	f.StringVar(&o.Head, "head", "", "which head predicts (default the model's first)")
	f.StringVar(&predictions, "predictions", "", "also write every prediction to this Parquet file")
	f.Float64Var(&least, "min-accuracy", 0, "exit with 6 where the accuracy is lower")
	f.IntVar(&o.Threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	cobra.CheckErr(cmd.MarkFlagRequired("archive"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Split != offline.Train && o.Split != offline.Test {
			return fmt.Errorf("--split %s: want train or test", o.Split)
		}
		if !(least >= 0) { // a NaN would let everything pass
			return fmt.Errorf("--min-accuracy %v: want a share of 1, such as 0.74", least)
		}
		part = f.Changed("split")
		if o.Threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", o.Threads)
		}
		return a.do(func(ctx context.Context, _ []string) error {
			if err := outputFile(predictions, archive, model); err != nil {
				return err
			}
			ev, err := a.evaluate(ctx, model, archive, part, o)
			if err == nil && predictions != "" {
				err = errors.Join(ctx.Err(), ev.WritePredictions(predictions))
			}
			if err != nil {
				return orInterrupted(err, "nothing was written")
			}
			if ev.Accuracy < least {
				return fail(exitTolerance, fmt.Errorf("accuracy %.4f is below the asked %.4f", ev.Accuracy, least), "")
			}
			return nil
		})(cmd, args)
	}
	return cmd
}

func (a *app) evaluate(ctx context.Context, model, archive string, split bool, o offline.EvaluateOptions) (*offline.Evaluation, error) {
	m, err := loadModel(model)
	if err != nil {
		return nil, err
	}
	src, err := openLabelled(archive)
	if err != nil {
		return nil, err
	}
	if split && src.set == nil {
		a.say("note: %s is a recording and is evaluated whole: --split is for data sets", archive)
	}
	o.NewEngine = newEngine(a.engine)
	p := a.progress()
	ev, err := src.evaluate(ctx, m, o, p.report)
	p.close()
	if err != nil {
		next := "eusn-stream model inspect " + quoteForShell(model)
		if src.set != nil && len(src.set.Part(o.Split)) == 0 {
			next = "the same command with --split " + otherSplit(string(o.Split))
		}
		return nil, fail(exitFailure, err, next)
	}
	if a.json {
		return ev, a.printJSON(ev)
	}
	part := "recording"
	if ev.Split != "" {
		part = string(ev.Split) + " part"
	}
	a.print("%s, %s: %d of %d right, accuracy %.4f, balanced accuracy %.4f",
		ev.Dataset, part, ev.Correct, ev.Labelled, ev.Accuracy, ev.Balanced)
	a.printCuts(src, m, ev)
	if ev.Missing > 0 {
		a.print("%d missing values were filled with the value before them", ev.Missing)
	}
	if n := ev.Flagged; len(n) > 0 {
		a.print("unlike the training: %d out of range, %d flat, %d of another length, of %d predictions", n[codec.FlagOutOfRange.String()], n[codec.FlagFlat.String()], n[codec.FlagLength.String()], len(ev.Predictions))
	}
	if ev.Empty > 0 {
		a.say("warning: %d %s have no value at all: what is predicted of them means nothing", ev.Empty, src.words())
	}
	if ev.Labelled == 0 {
		a.say("warning: nothing here has a label: there is nothing to be right about, and the accuracy says nothing")
	}
	a.print("%s", confusionText(ev.Classes, ev.Confusion))
	return ev, nil
}

// printCuts says what was predicted, where it was not each series once.
func (a *app) printCuts(src labelledData, m *reservoir.Model, ev *offline.Evaluation) {
	if m.Policy.Kind != reservoir.Marked || src.set == nil {
		a.print("%d sequences of %d %s, cut as the stage cuts: %s", ev.Sequences, ev.Series, src.words(), policyText(m.Policy))
	}
	if ev.Mixed > 0 {
		a.print("%d of them hold samples of several labels and count for none", ev.Mixed)
	}
	if ev.Unused > 0 {
		a.print("%d samples behind the last prediction of their %s are in none", ev.Unused, src.words())
	}
	if e := ev.Early; e != nil {
		a.print("early: %d of %d right, accuracy %.4f", e.Correct, e.Labelled, e.Accuracy)
	}
	if err := m.CheckLengths(); err != nil {
		a.say("warning: %v", err)
	}
}

// maxConfusion is how many classes still make a readable matrix.
const maxConfusion = 20

// maxClassWidth is how many characters of a class a table shows.
const maxClassWidth = 24

// confusionText is the confusion matrix for people: rows true, columns
// predicted.
func confusionText(classes []string, confusion [][]int) string {
	if len(classes) > maxConfusion {
		return fmt.Sprintf("(%d classes: the confusion matrix is in the --json output)", len(classes))
	}
	name, shown := 5, make([]string, len(classes))
	for i, c := range classes {
		shown[i] = names.Cut(c, maxClassWidth)
		name = max(name, utf8.RuneCountInString(shown[i]))
	}
	cell := max(name, 6)
	var b strings.Builder
	fmt.Fprintf(&b, "%*s", name, "true\\")
	for _, c := range shown {
		fmt.Fprintf(&b, " %*s", cell, c)
	}
	for i, row := range confusion {
		fmt.Fprintf(&b, "\n%*s", name, shown[i])
		for _, n := range row {
			fmt.Fprintf(&b, " %*d", cell, n)
		}
	}
	return b.String()
}
