package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// evaluateFlags are the flags of evaluate.
type evaluateFlags struct {
	evaluated
	predictions string
	alarms      string // file of alarm rules
	alarmRules  string // their text instead
	merges      mergeFlag
	group       groupFlags
	least       float64 // accuracy
	tolerance   int     // percent
	options     offline.EvaluateOptions
}

// NewEvaluate makes the command "evaluate", also available as "offline evaluate".
func NewEvaluate(a *cli.App) *cobra.Command {
	flags := evaluateFlags{options: offline.EvaluateOptions{Split: archive.Test}}
	cmd := &cobra.Command{
		Use:   "evaluate DATA",
		Short: "Predict labeled data and print the accuracy",
		Long: `DATA is a Parquet archive, or tables or a published data set (` + dataColumns + `).

Predict one part of an archive. The model's policy cuts its series into sequences,
as in the live stage. Prints accuracy, balanced accuracy and confusion matrix of the
sequences; early predictions are counted separately. A recording is evaluated as a
whole; a sequence counts if all its samples have the same label. The scores equal
those of the live stage bit for bit.`,
		Example: `  eusn-stream evaluate Adiac.parquet --model adiac.safetensors
  eusn-stream evaluate a.parquet --model m.safetensors --min-accuracy 0.74   # for a CI job
  eusn-stream evaluate year.parquet --model healthy.safetensors --alarms rules.yaml`,
		Args: oneData,
	}
	flags.addFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flags.archive = args[0]
		if err := flags.readFlags(cmd.Flags()); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) error { return flags.runEvaluate(ctx, a) })(cmd, args)
	}
	return cmd
}

func (e *evaluateFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&e.labels, "labels", "", "what the samples of a recording were, instead of its column label: CSV with stream,from,to,label, or what labels export or labels list --json prints")
	e.merges.addFlag(f)
	e.group.addFlags(f, ": also print the accuracy of each group")
	f.StringVarP(&e.model, "model", "m", "model.safetensors", "model file")
	f.StringVar((*string)(&e.options.Split), "split", string(archive.Test), "part of a data set, or of --parts, to predict: train or test")
	f.StringVar(&e.options.Readout, "readout", "", "readout that predicts (default: the model's first)")
	f.StringVar(&e.predictions, "predictions", "", "also write every prediction to this Parquet file")
	f.StringVar(&e.alarms, "alarms", "", "YAML file of alarm rules, or the configuration of the stage (docs/alarm-rules.md): also judge the predictions by these, as live, and count true, false and missed alarms")
	f.StringVar(&e.alarmRules, "alarm-rules", "", "raise alarms by these rules, instead of those of --alarms, such as 'dead: flag flat'")
	f.StringVar(&e.picture, "picture", "", "also draw faults or numbers of each stream, and their alarms: an SVG file, which a browser shows; replaces an older one")
	f.IntVar(&e.tolerance, "rate-tolerance", 5, "percent by which sampling rates may differ from the model's before predictions are flagged; -1 = any (the stage has input.rate_tolerance)")
	f.Float64Var(&e.least, "min-accuracy", 0, "exit with 6 if the accuracy is lower")
	f.IntVar(&e.options.Threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	f.Float64Var(&e.adaptive, "adaptive", 0, "of a model with sets: also show what they become if each label moves their thresholds at this rate, such as 0.01 (docs/sets.md); of one of numbers: their intervals, such as 0.2 (docs/regression.md); 0 = do not")
	f.StringVarP(&e.out, "output", "o", "", "with --adaptive: also write the model with the thresholds, or the interval, that the last label has led to; replaces an older file when it is complete")
	f.IntVar(&e.delay, "label-delay", 0, "with --adaptive: how many predictions more are made before a label comes")
}

// readFlags checks the flags, and completes the options.
func (e *evaluateFlags) readFlags(f *pflag.FlagSet) (err error) {
	o := &e.options
	if err := cli.CheckRules([]cli.Rule{
		{Broken: o.Split != archive.Train && o.Split != archive.Test, Message: fmt.Sprintf("--split %s: want train or test", o.Split)},
		// a NaN would let everything pass
		{Broken: !(e.least >= 0), Message: fmt.Sprintf("--min-accuracy %v: want a share of 1, such as 0.74", e.least)},
		{Broken: f.Changed("adaptive") && !(e.adaptive > 0 && e.adaptive < 1), Message: fmt.Sprintf("--adaptive %v: want a rate above 0 and below 1, such as 0.01", e.adaptive)},
		{Broken: f.Changed("label-delay") && e.adaptive == 0, Message: fmt.Sprintf("--label-delay %d: want --adaptive, too, such as --adaptive 0.01", e.delay)},
		{Broken: e.out != "" && e.adaptive == 0, Message: fmt.Sprintf("--output %s: want --adaptive, too, such as --adaptive 0.01: without it the model stays as it is", e.out)},
		{Broken: e.out != "" && e.out == e.predictions, Message: fmt.Sprintf("--output and --predictions are both %s: want two files", e.out)},
		{Broken: e.alarms != "" && e.alarmRules != "", Message: "--alarms and --alarm-rules: want one of them"},
		{Broken: e.picture != "" && e.alarms+e.alarmRules == "", Message: fmt.Sprintf("--picture %s: want --alarms or --alarm-rules, too: the picture shows the alarms", e.picture)},
		{Broken: e.delay < 0, Message: fmt.Sprintf("--label-delay %d: want a number of predictions, 0 or more", e.delay)},
		{Broken: e.tolerance < -1 || e.tolerance == 0 || e.tolerance > 100, Message: fmt.Sprintf("--rate-tolerance %d: want 1 to 100, or -1", e.tolerance)},
		{Broken: o.Threads < 0, Message: fmt.Sprintf("--threads %d: want 0 or more", o.Threads)},
	}); err != nil {
		return err
	}
	if err := e.merges.parse(); err != nil {
		return err
	}
	o.Merges, o.RateTolerance = e.merges.parsed, float64(e.tolerance)/100
	e.split = f.Changed("split")
	e.groups, err = e.group.readFlags()
	o.Groups, o.Parts = e.group.group, e.groups.encoded
	return err
}

// runEvaluate evaluates, and writes the predictions.
func (e *evaluateFlags) runEvaluate(ctx context.Context, a *cli.App) error {
	if err := cli.OutputFile(e.predictions, e.archive, e.labels, e.model, e.group.parts); err != nil {
		return err
	}
	if err := cli.OutputFile(e.out, e.archive, e.labels, e.model, e.group.parts, e.predictions); err != nil {
		return err
	}
	if err := cli.OutputFile(e.picture, e.archive, e.labels, e.model, e.group.parts, e.predictions, e.out, e.alarms); err != nil {
		return err
	}
	if err := e.readRules(); err != nil {
		return cli.Fail(cli.ExitConfig, err, "docs/alarm-rules.md describes the rules")
	}
	ev, err := evaluate(ctx, a, e.evaluated, e.options)
	if err == nil && e.predictions != "" {
		err = errors.Join(ctx.Err(), ev.WritePredictions(e.predictions))
	}
	if err != nil {
		return cli.OrInterrupted(err, "nothing was written")
	}
	if e.least > 0 && ev.Numbers != nil {
		return errors.New("--min-accuracy: the model predicts numbers, which have no accuracy: leave it out, and see the errors in the --json output")
	}
	if ev.Accuracy < e.least {
		return cli.Fail(cli.ExitTolerance, fmt.Errorf("accuracy %.4f is below the requested %.4f", ev.Accuracy, e.least), "")
	}
	return nil
}

// readRules reads the rules of --alarms or --alarm-rules.
func (e *evaluateFlags) readRules() (err error) {
	if e.alarms != "" {
		e.rules, err = alarm.ReadRules(e.alarms)
	} else if e.alarmRules != "" {
		e.rules, err = alarm.ReadRuleText([]byte(e.alarmRules), "--alarm-rules")
	}
	return err
}

// evaluated is the subject of an evaluation.
type evaluated struct {
	model, archive, labels string
	split                  bool // a part was asked for
	groups                 grouping
	adaptive               float64 // rate; 0: no labels move thresholds or intervals
	delay                  int     // of labels, in predictions
	out                    string
	rules                  alarm.Rules // of alarms, to judge the predictions by
	picture                string      // of the alarms; empty: none
}

// evaluation is an evaluation with the effect of labels, as printed.
type evaluation struct {
	*offline.Evaluation
	bridge.Adapted
	Alarms *alarm.Rehearsal `json:"alarms,omitempty"` // nil: no rules
}

func evaluate(ctx context.Context, a *cli.App, of evaluated, o offline.EvaluateOptions) (ev evaluation, err error) {
	m, err := of.loadModel(a, o.Readout)
	if err != nil {
		return ev, err
	}
	src, err := openGrouped(ctx, a, of.archive, of.labels, of.groups.rule)
	if err != nil {
		return ev, err
	}
	defer src.Close()
	if of.split && src.Set == nil && o.Parts == nil {
		a.Say("note: %s is a recording: all of it is evaluated; --split applies to data sets, and with --parts", of.archive)
	}
	if o.NewEngine, err = engineFor(a, m.Network.Spec); err != nil {
		return ev, err
	}
	if err := src.ReadTargetOf(m, o.Readout); err != nil {
		return ev, err
	}
	if ev, err = predict(ctx, a, of, src, m, o); err != nil {
		return ev, cli.Fail(cli.ExitFailure, err, nextEvaluation(of, src, o))
	}
	if of.rules != nil {
		var judged []alarm.Known
		if ev.Alarms, judged, err = rehearse(ev.Evaluation, m, of.rules); err != nil {
			return ev, cli.Fail(cli.ExitConfig, err, "docs/alarm-rules.md describes the rules")
		}
		if of.picture != "" {
			if err := cli.ReplaceFile(of.picture, drawTimeline(ev.Evaluation, of.rules, judged, ev.Alarms.Events), cli.Public); err != nil {
				return ev, cli.Fail(cli.ExitFailure, err, "")
			}
		}
	}
	if err := of.saveAdapted(ev); err != nil {
		return ev, cli.Fail(cli.ExitFailure, err, "")
	}
	if a.JSON {
		return ev, a.PrintJSON(ev)
	}
	printEvaluation(a, src, m, ev)
	return ev, nil
}

// loadModel loads the model, and compares the rules with its readout.
func (of evaluated) loadModel(a *cli.App, readout string) (*reservoir.Model, error) {
	m, err := models.Load(of.model)
	if err == nil {
		err = compareRules(a, of.rules, m, readout, of.model)
	}
	return m, err
}

// predict evaluates a model, and lets labels move its thresholds or intervals.
func predict(ctx context.Context, a *cli.App, of evaluated, src archives.Labeled, m *reservoir.Model, o offline.EvaluateOptions) (ev evaluation, err error) {
	if of.adaptive != 0 { // a model without sets fails before the work
		if _, err = bridge.Adapt(&offline.Evaluation{Readout: o.Readout}, m, of.adaptive, of.delay); err != nil {
			return ev, err
		}
	}
	p := a.Progress()
	ev.Evaluation, err = src.Evaluate(ctx, m, o, p.Report)
	p.Close()
	if err == nil && of.adaptive != 0 {
		ev.Adapted, err = bridge.Adapt(ev.Evaluation, m, of.adaptive, of.delay)
	}
	return ev, err
}

// saveAdapted writes the changed model, if requested.
func (of evaluated) saveAdapted(ev evaluation) error {
	switch {
	case of.out == "":
		return nil
	case ev.Changed == nil:
		return errors.New("no label has moved a threshold or an interval: want labels, or numbers")
	}
	return ev.Changed.Save(of.out)
}

// nextEvaluation is the advice after a failed evaluation.
func nextEvaluation(of evaluated, src archives.Labeled, o offline.EvaluateOptions) string {
	switch {
	case src.Set != nil && len(src.Set.Part(o.Split)) == 0:
		return "the same command with --split " + archives.OtherSplit(string(o.Split))
	case of.groups.rule != nil:
		return "the same command without --group, or with another rule: eusn-stream evaluate --help"
	}
	return "eusn-stream model show " + cli.QuoteForShell(of.model)
}

// printEvaluation prints an evaluation for people.
func printEvaluation(a *cli.App, src archives.Labeled, m *reservoir.Model, ev evaluation) {
	part := "recording"
	if ev.Split != "" {
		part = string(ev.Split) + " part"
	}
	numeric := len(ev.Classes) == 1
	if numeric {
		a.Print("%s, %s: %s of %d sequences, %d of them known", ev.Dataset, part, names.Cut(ev.Classes[0], models.MaxClassWidth), ev.Sequences, ev.Labeled)
	} else {
		a.Print("%s, %s: %d of %d right, accuracy %.4f, balanced accuracy %.4f",
			ev.Dataset, part, ev.Correct, ev.Labeled, ev.Accuracy, ev.Balanced)
	}
	if text := src.Labels.Fit().Text(); text != "" {
		a.Say("warning: %s", text)
	}
	printCuts(a, src, m, ev.Evaluation)
	if ev.Missing > 0 {
		a.Print("%d missing values were filled with the value before them", ev.Missing)
	}
	if n := ev.Flagged; len(n) > 0 {
		a.Print("flagged as unlike the training: %d out of range, %d flat, %d of unusual length, %d at another sampling rate, of %d predictions",
			n[outcome.FlagOutOfRange.String()], n[outcome.FlagFlat.String()], n[outcome.FlagLength.String()], n[outcome.FlagRate.String()], len(ev.Predictions))
	}
	if ev.Empty > 0 {
		a.Say("warning: %d %s have no values; their predictions mean nothing", ev.Empty, src.Words())
	}
	if numeric {
		printNumericScores(a, src, m, ev)
	} else {
		printClassScores(a, ev)
	}
	printRehearsal(a, ev.Alarms)
	printChanges(a, m.Channels, ev.Alarms)
}

// printNumericScores prints the errors of a model with numeric predictions.
func printNumericScores(a *cli.App, src archives.Labeled, m *reservoir.Model, ev evaluation) {
	if ev.Labeled == 0 {
		a.Say("warning: the data have no numbers in a column %s, so that there is nothing to compare with", names.Cut(ev.Classes[0], models.MaxClassWidth))
	}
	printNumbers(a, ev.Numbers)
	printLast(a, src.Words(), ev.Numbers, ev.Last, intervalOf(m, ev.Readout))
	if ev.AdaptiveNumbers != nil {
		a.Print("adaptive   %s", ev.AdaptiveNumbers)
	}
	printNovelty(a, ev.Novelty)
}

// intervalOf returns the interval of the readout of a model with numeric predictions.
func intervalOf(m *reservoir.Model, name string) *readout.Interval {
	i := slices.IndexFunc(m.Readouts, func(l *readout.Linear) bool { return l.Name == name })
	return m.Readouts[i].Interval
}

// printClassScores prints the confusion matrix and the measures of a classifier.
func printClassScores(a *cli.App, ev evaluation) {
	if ev.Labeled == 0 {
		a.Say("warning: the data have no labels, so the accuracy means nothing")
	}
	a.Print("%s", ConfusionText(ev.Classes, ev.Confusion))
	printQuality(a, ev.Quality)
	printSets(a, ev.Sets)
	if ev.Adaptive != nil {
		a.Print("adaptive   %s", ev.Adaptive)
	}
	printAnswers(a, ev.Answers)
	printNovelty(a, ev.Novelty)
	printGroups(a, ev.ByGroup)
}

// printCuts describes the predictions, unless each series has exactly one.
func printCuts(a *cli.App, src archives.Labeled, m *reservoir.Model, ev *offline.Evaluation) {
	if m.Policy.Kind != reservoir.Marked || src.Set == nil {
		a.Print("%d sequences of %d %s, cut as the live stage cuts them: %s", ev.Sequences, ev.Series, src.Words(), models.PolicyText(m.Policy))
	}
	if ev.Mixed > 0 {
		a.Print("%d of them hold samples with several labels and are not counted", ev.Mixed)
	}
	if ev.Unused > 0 {
		a.Print("%d samples after the last prediction of their %s are in no sequence", ev.Unused, src.Words())
	}
	if e := ev.Early; e != nil && len(ev.Classes) > 1 {
		a.Print("early: %d of %d right, accuracy %.4f", e.Correct, e.Labeled, e.Accuracy)
		printDecided(a, e.Decided)
	}
	if err := m.CheckLengths(); err != nil {
		a.Say("warning: %v", err)
	}
}

// maxConfusion is how many classes still make a readable matrix.
const maxConfusion = 20

// ConfusionText is the confusion matrix for people: rows true, columns
// predicted.
func ConfusionText(classes []string, confusion [][]int) string {
	if len(classes) > maxConfusion {
		return fmt.Sprintf("(%d classes: the confusion matrix is in the --json output)", len(classes))
	}
	name, shown := 5, make([]string, len(classes))
	for i, c := range classes {
		shown[i] = names.Cut(c, models.MaxClassWidth)
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
