package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
)

func newEvaluate(a *app) *cobra.Command {
	var archive, model, predictions string
	var least float64
	o := offline.EvaluateOptions{Split: offline.Test}
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Predict a part of an archive and count what is right",
		Long: `Run every series of one part of an archive through a model, and print accuracy,
balanced accuracy and the confusion matrix. The scores are bit for bit those the
live stage gives.`,
		Example: `  eusn-stream offline evaluate --model adiac.safetensors --archive Adiac.parquet
  eusn-stream offline evaluate --model m.safetensors --archive a.parquet --min-accuracy 0.74   # for a CI job`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&archive, "archive", "", "Parquet archive")
	f.StringVar(&model, "model", "model.safetensors", "model file")
	f.StringVar((*string)(&o.Split), "split", string(offline.Test), "part to predict: train or test")
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
		if o.Threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", o.Threads)
		}
		return a.do(func(ctx context.Context, _ []string) error {
			if err := outputFile(predictions, archive, model); err != nil {
				return err
			}
			ev, err := a.evaluate(ctx, model, archive, o)
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

func (a *app) evaluate(ctx context.Context, model, archive string, o offline.EvaluateOptions) (*offline.Evaluation, error) {
	m, err := loadModel(model)
	if err != nil {
		return nil, err
	}
	d, err := readArchive(archive)
	if err != nil {
		return nil, err
	}
	o.NewEngine = newEngine(a.engine)
	p := a.progress()
	ev, err := offline.Evaluate(ctx, m, d, o, p.report)
	p.close()
	if err != nil {
		next := "eusn-stream model inspect " + quoteForShell(model)
		if len(d.Part(o.Split)) == 0 {
			next = "the same command with --split " + otherSplit(string(o.Split))
		}
		return nil, fail(exitFailure, err, next)
	}
	if a.json {
		return ev, a.printJSON(ev)
	}
	a.print("%s, %s part: %d of %d right, accuracy %.4f, balanced accuracy %.4f",
		ev.Dataset, ev.Split, ev.Correct, ev.Labelled, ev.Accuracy, ev.Balanced)
	if ev.Missing > 0 {
		a.print("%d missing values were filled with the value before them", ev.Missing)
	}
	if ev.Empty > 0 {
		a.say("warning: %d series have no value at all: what is predicted of them means nothing", ev.Empty)
	}
	if ev.Labelled == 0 {
		a.say("warning: no series of this part has a label: there is nothing to be right about, and the accuracy says nothing")
	}
	a.print("%s", confusionText(ev.Classes, ev.Confusion))
	return ev, nil
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
