package offlinecmd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout"
)

// certaintyFlags select the certainty that a model reports.
type certaintyFlags struct {
	coverage float64
	by       string
	priors   string
	weights  string
	priorOf  offline.PerClass // parsed from priors
	weightOf offline.PerClass // parsed from weights
	target   string
	capAt    float64
	clip     bool
	capped   bool // capAt is set
	random   string
	means    []int
	randomOf *offline.RandomOptions // parsed from random and means
	maxError float64
	sure     float64
	segments string
	divided  *offline.SegmentOptions // parsed from segments
}

func (c *certaintyFlags) addFlags(f *pflag.FlagSet) {
	f.Float64Var(&c.coverage, "coverage", 0, "also make a set of classes for each prediction, which holds the true one in this share of the sequences, such as 0.95 (docs/sets.md); 0 = no sets. With --target the share that the intervals hold; default 0.95")
	f.StringVar(&c.target, "target", "", "column of numbers to learn instead of classes, such as the remaining life: of each series of a data set, or of each sample of a recording (docs/regression.md)")
	f.Float64Var(&c.capAt, "cap", 0, "with --target: learn larger numbers as this one, such as 125 for a remaining life that nothing announces earlier (docs/regression.md)")
	f.BoolVar(&c.clip, "clip", false, "with --target: limit predicted numbers to the range of the training's; default: with --cap")
	f.StringVar(&c.random, "random-features", "auto", "with --target: random features of running means of the channels, in place of the network (docs/regression.md): auto = if leave-one-out is better with them, none, or their number, such as 1024")
	f.IntSliceVar(&c.means, "means", nil, "with --random-features: lengths of the running means, in samples after the front end (default 4,16,64,256)")
	f.StringVar(&c.segments, "segments", "auto", "with --policy count: mean and deviation of each channel in segments of the sequence, in place of the network (docs/policies.md#segments): auto = if each series is one sequence and leave-one-out is better with them, none, or their number, such as 12")
	f.Float64Var(&c.maxError, "max-error", 0, "abstain where the model is not sure, so that at most this share of the answers is wrong, such as 0.02 (docs/sets.md); 0 = answer always")
	f.Float64Var(&c.sure, "confidence", offline.DefaultConfidence, "with --max-error: probability that the share is not larger")
	f.StringVar(&c.by, "coverage-by", "all", "what --coverage is a share of: all sequences together, or those of each class")
	f.StringVar(&c.priors, "priors", "", "how often each class is expected where the model will work: balanced, or normal=50,worn=1 in any unit; default: as often as in the training")
	f.StringVar(&c.weights, "class-weights", "", "how much a sequence of each class counts in the training: balanced, or normal=1,worn=20 in any unit (docs/sets.md); default: all alike")
}

// checkFlags refuses contradictory flags.
func (c *certaintyFlags) checkFlags(f *pflag.FlagSet) error {
	err := cli.CheckRules([]cli.Rule{
		{Broken: f.Changed("coverage") && !(c.coverage > 0 && c.coverage < 1), Message: fmt.Sprintf("--coverage %v: want a share above 0 and below 1, such as 0.95", c.coverage)},
		{Broken: f.Changed("max-error") && !(c.maxError > 0 && c.maxError < 1), Message: fmt.Sprintf("--max-error %v: want a share above 0 and below 1, such as 0.02", c.maxError)},
		{Broken: !(c.sure > 0 && c.sure < 1), Message: fmt.Sprintf("--confidence %v: want a probability above 0 and below 1, such as 0.95", c.sure)},
		{Broken: f.Changed("confidence") && c.maxError == 0, Message: fmt.Sprintf("--confidence %v: want --max-error, too, such as --max-error 0.02", c.sure)},
		{Broken: c.maxError != 0 && c.priors != "", Message: "--max-error and --priors: errors are counted as often as the training has each class: want one of them"},
		{Broken: c.by != "all" && c.by != "class", Message: fmt.Sprintf("--coverage-by %s: want all or class", c.by)},
		{Broken: f.Changed("coverage-by") && c.coverage == 0, Message: fmt.Sprintf("--coverage-by %s: want --coverage, too, such as --coverage 0.95", c.by)},
		{Broken: c.target != "" && (c.priors != "" || c.weights != "" || c.by == "class" || c.maxError != 0), Message: "--target, and --priors, --class-weights, --coverage-by class or --max-error: numbers have no classes: leave these out"},
	})
	if err != nil {
		return err
	}
	return cmp.Or(c.checkNumbers(f), c.parseSegments(), c.parseClasses())
}

// checkNumbers refuses contradictory flags of numbers, and completes the flags.
func (c *certaintyFlags) checkNumbers(f *pflag.FlagSet) error {
	if c.capped = f.Changed("cap"); c.capped && !f.Changed("clip") {
		c.clip = true
	}
	if err := c.parseRandom(f); err != nil {
		return err
	}
	return cli.CheckRules([]cli.Rule{
		{Broken: (c.capped || f.Changed("clip")) && c.target == "", Message: "--cap and --clip are about numbers: want --target, too"},
		{Broken: c.capped && !(math.Abs(c.capAt) <= math.MaxFloat32), Message: fmt.Sprintf("--cap %v: want a finite number, such as 125", c.capAt)},
	})
}

// parseRandom parses the flags of random features.
func (c *certaintyFlags) parseRandom(f *pflag.FlagSet) error {
	if (f.Changed("random-features") || f.Changed("means")) && c.target == "" {
		return errors.New("--random-features and --means are about numbers: want --target, too")
	}
	if c.target == "" || c.random == "none" {
		if f.Changed("means") {
			return errors.New("--means: lengths of running means for random features, and --random-features none: want one of them")
		}
		return nil
	}
	c.randomOf = &offline.RandomOptions{Means: c.means}
	if c.random == "auto" {
		return nil
	}
	n, err := strconv.ParseUint(c.random, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("--random-features %s: want auto, none or a number of features, such as 1024", c.random)
	}
	c.randomOf.Units, c.randomOf.Always = int(n), true
	return nil
}

// parseSegments parses the flag of segments.
func (c *certaintyFlags) parseSegments() error {
	switch c.segments {
	case "none":
		return nil
	case "auto":
		c.divided = new(offline.SegmentOptions)
		return nil
	}
	n, err := strconv.ParseUint(c.segments, 10, 31)
	if err != nil || n < 2 {
		return fmt.Errorf("--segments %s: want auto, none or a number of segments, such as 12", c.segments)
	}
	c.divided = &offline.SegmentOptions{Count: int(n), Always: true}
	return nil
}

// parseClasses parses the flags with a number for each class.
func (c *certaintyFlags) parseClasses() error {
	if err := c.priorOf.UnmarshalText([]byte(c.priors)); err != nil {
		return fmt.Errorf("--priors %w", err)
	}
	if err := c.weightOf.UnmarshalText([]byte(c.weights)); err != nil {
		return fmt.Errorf("--class-weights %w", err)
	}
	return nil
}

// set copies the flags into training options.
func (c *certaintyFlags) set(o *offline.RetrainOptions) {
	o.Coverage, o.Target, o.Clip, o.Random, o.Segments = c.coverage, c.target, c.clip, c.randomOf, c.divided
	if c.capped {
		limit := float32(c.capAt)
		o.Cap = &limit
	}
	if c.by == "class" {
		o.CoverageByClass = true
	}
	if c.maxError != 0 {
		o.MaxError, o.Confidence = c.maxError, c.sure
	}
	o.Priors, o.Weights = c.priorOf, c.weightOf
}

// printSets prints the quality of sets of classes, if there are any.
func printSets(a *cli.App, s *quality.Sets) {
	if s == nil {
		return
	}
	part := func(n int) float64 { return float64(n) / float64(s.Samples) }
	a.Print("sets       coverage %.4f, %.3f classes in the mean; one class %.1f %%, several %.1f %%, none %.1f %%; one class and wrong %.2f %%",
		s.Coverage, s.Size, 100*part(s.Single), 100*part(s.Several), 100*part(s.Empty), 100*part(s.Wrong))
	if len(s.Classes) > maxConfusion {
		return // printQuality has named the place of the classes
	}
	for _, c := range s.Classes {
		a.Print("           %s: coverage %s, %s classes in the mean", names.Cut(c.Class, models.MaxClassWidth), shown(c.Coverage), shown(c.Size))
	}
}

// wrongOf counts the samples with a wrong predicted class.
func wrongOf(q *quality.Report) (wrong int) {
	for _, c := range q.Classes {
		wrong += c.Samples - c.Right
	}
	return wrong
}

// sayCoverage prints the limits of the sets' coverage.
func sayCoverage(a *cli.App, r fit.Report, c *readout.Coverage) {
	if c == nil {
		return
	}
	a.Say("note: the thresholds of the sets come from these leave-one-out scores, so their coverage is the requested coverage; evaluate other sequences to check it")
	right, always := 1-float64(wrongOf(r.Quality))/float64(r.Quality.Samples), slices.Contains(c.Least, 0)
	switch {
	case right <= c.Level || always: // a class that is in every set leaves none empty
	case right == 1:
		a.Say("note: leave-one-out is right for all sequences: most sets without a class are of sequences whose class is right, but less typical than most; a coverage nearer to 1 makes fewer of these")
	default:
		a.Say("note: leave-one-out is right in a share of %.4f, more than the coverage of %v: most sets that miss the true class hold none; a coverage above %.4f makes fewer of these", right, c.Level, right)
	}
	if r.Groups > 0 {
		a.Say("note: leave-one-out left out %d groups: so the coverage for new groups is only as reliable as this number of groups", r.Groups)
	}
	enough := fit.Enough(c.Level)
	few := []string{}
	for k, least := range c.Least {
		if least == 0 && c.ByClass {
			few = append(few, r.Quality.Classes[k].Class)
		}
	}
	if len(few) > 0 {
		instead := ""
		if len(few) > 1 {
			instead = ", so that no set has one class alone; leave --coverage-by out, or train on more of them"
		}
		a.Say("warning: %s: fewer than %d sequences each, too few to leave any out at coverage %v: the class is in every set%s", models.ListText(few), enough, c.Level, instead)
	} else if c.Least[0] == 0 {
		a.Say("warning: fewer than %d sequences, too few to leave any out at coverage %v: every set holds all classes", enough, c.Level)
	}
}

// printAnswers prints the quality of answers, if some predictions abstain.
func printAnswers(a *cli.App, c *offline.AnswerCount) {
	if c == nil {
		return
	}
	wrong := "-"
	if c.Error != nil {
		wrong = fmt.Sprintf("%.2f %%", 100**c.Error)
	}
	a.Print("answers    %.1f %% of %d sequences, the others abstain; of the answers %s are wrong, of all predictions %.2f %%", 100*float64(c.Answered)/float64(c.Samples), c.Samples, wrong, 100*c.All)
}

// sayAnswers prints the limits of the answers' error.
func sayAnswers(a *cli.App, r fit.Report, rule *readout.AbstainRule) {
	if rule == nil {
		return
	}
	c := r.Answers
	if c.Answered == 0 {
		a.Say("warning: leave-one-out shows for no threshold that at most %v of the answers are wrong, with a confidence of %v: so every prediction abstains; that takes at least %d sequences that are answered, none of them wrong; allow more (--max-error), or train on more", rule.MaxError, rule.Confidence, abstain.Enough(rule.MaxError, rule.Confidence))
		return
	}
	a.Say("note: these answers are from leave-one-out, and so is the threshold; they show an error of at most %.4f with a confidence of %v, for sequences like these", c.Bound, rule.Confidence)
	if r.Groups > 0 {
		a.Say("note: leave-one-out left out %d groups, and the confidence counts %d sequences as if each were independent: for new groups it is less", r.Groups, c.Samples)
	}
}

// printNumbers prints how well numbers are predicted, if any are.
func printNumbers(a *cli.App, n *offline.NumberErrors) {
	if n == nil {
		return
	}
	a.Print("errors     %s", errorsText(n))
	a.Print("intervals  hold %.2f %%, %.2f %% are below and %.2f %% above; %.4g wide in the mean", 100*n.Coverage, 100*n.Below, 100*n.Above, n.Width)
}

// printRandom prints the choice between random features and the network.
func printRandom(a *cli.App, r *offline.RandomReport) {
	if r == nil {
		return
	}
	choice := "not chosen (--random-features " + strconv.Itoa(r.Units) + " takes them)"
	if r.Chosen {
		choice = "chosen (--random-features none takes the network)"
	}
	a.Print("choice     leave-one-out root mean square %.4g with %d random features of %s, %.4g with the network: random features %s", r.RMSE, r.Units, models.MeansText(r.Means), r.Network, choice)
}

// printSegments prints the choice between segments and the network.
func printSegments(a *cli.App, r *offline.SegmentReport) {
	if r == nil {
		return
	}
	choice := fmt.Sprintf("not chosen (--segments %d takes them)", r.Segments.Count)
	if r.Chosen {
		choice = "chosen (--segments none takes the network)"
	}
	if r.Network == 0 {
		a.Print("choice     %s: segments %s", models.SegmentsText(&r.Segments), choice)
		return
	}
	a.Print("choice     leave-one-out accuracy %.4f with %s, %.4f with the network: segments %s", r.Accuracy, models.SegmentsText(&r.Segments), r.Network, choice)
}

// errorsText describes the errors of numbers.
func errorsText(n *offline.NumberErrors) string {
	r2 := "not known, for all are equal"
	if n.R2 != nil {
		r2 = fmt.Sprintf("%.4f", *n.R2)
	}
	return fmt.Sprintf("root mean square %.4g, mean %.4g, bias %+.3g; R2 %s", n.RMSE, n.MAE, n.Bias, r2)
}

// printLast prints the errors of the last predictions of streams, and the score of a remaining life.
func printLast(a *cli.App, words string, all, last *offline.NumberErrors, v *readout.Interval) {
	if last != nil {
		a.Print("last       of each of %d %s: %s", last.Samples, words, errorsText(last))
	}
	if n := cmp.Or(last, all); n != nil && n.PHM08 != nil && v.Cap != nil {
		a.Print("score      PHM 2008 %.4g, if the number is a remaining life in cycles; numbers above %v count as %v", *n.PHM08, *v.Cap, *v.Cap)
	}
}

// sayNumbers prints the limits of the intervals' coverage.
func sayNumbers(a *cli.App, r fit.Report) {
	if r.Numbers == nil {
		return
	}
	a.Say("note: these errors are from leave-one-out, and so are the intervals: their coverage is the requested coverage; evaluate other sequences to check it")
	if r.Groups > 0 {
		a.Say("note: leave-one-out left out %d groups: so the intervals for new groups are only as reliable as this number of groups", r.Groups)
	}
}
