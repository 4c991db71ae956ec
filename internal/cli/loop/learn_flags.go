package loop

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/learn"
)

// learnFlags are the flags of learn that override keys of the configuration.
var learnFlags = []string{"nats-url", "dir", "job", "model"}

// learnOptions are the options specific to learn.
type learnOptions struct {
	file       string // of the configuration
	store, out string
	publish    bool
	shadow     bool
	who        string
	without    []string
	leaveOut   string
	sums       string
	keep       int
	solve      bool
	whole      bool
	follow     bool
	every      time.Duration
	after      int
	adaptive   float64
	weights    string
}

func (o *learnOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.file, "config", "c", "", "configuration file of the stage")
	f.StringP("model", "m", "", "model file (default the job's model, of its registry)")
	server.AddJobFlags(f)
	f.StringVar(&o.store, "store", "", "directory for the features of labeled sequences")
	f.StringVarP(&o.out, "output", "o", "", "model file to write; replaces an older one when it is complete")
	f.BoolVar(&o.publish, "publish", false, "store the new model in the job's registry")
	f.BoolVar(&o.shadow, "shadow", false, "with --publish: make the new readout a shadow of the active readout")
	f.StringVar(&o.who, "who", "", "with --publish: who publishes it (default the user of this machine)")
	f.StringArrayVar(&o.without, "exclude", nil, "do not learn from stream=PATTERN, who=NAME or FROM..TO; may be repeated")
	f.StringVar(&o.leaveOut, "leave-out", "", "test each group with a readout of the others: stream, or a regular expression with a group")
	f.StringVar(&o.sums, "sums", "", "keep sums instead of features, for each site: all, stream, or a regular expression with a group")
	f.IntVar(&o.keep, "keep-features", 0, "with --sums: sequences that keep their features (default 160 MiB of them)")
	f.Float64Var(&o.adaptive, "adaptive", 0, "of a model with sets: labels move the sets' thresholds in the order in which they came, at this rate, such as 0.01 (docs/sets.md); 0 = they do not")
	f.StringVar(&o.weights, "class-weights", "", "how much a sequence of each class counts: balanced, or normal=1,worn=20 in any unit (docs/sets.md); default: all alike")
	f.BoolVar(&o.solve, "solve", false, "fit with what the store has; do not read the log")
	f.BoolVar(&o.whole, "whole", false, "search the whole log for all labels again")
	f.BoolVarP(&o.follow, "follow", "f", false, "with each new label and reading, until Ctrl-C")
	f.DurationVar(&o.every, "interval", time.Hour, "with --follow: time between two readings")
	f.IntVar(&o.after, "after", 100, "with --follow: fit again after so many more labels")
}

// checkOptions refuses implausible values, and flags that exclude each other.
func (o *learnOptions) checkOptions(f *pflag.FlagSet) error {
	return cli.CheckRules([]cli.Rule{
		{Broken: o.store == "" || o.out == "" && (f.Changed("output") || !o.publish), Message: "--store and --output: want a directory and the name of a file; --publish needs no file"},
		{Broken: (o.who != "" || o.shadow) && !o.publish, Message: "--who and --shadow are for --publish: want both"},
		{Broken: o.every < time.Second || o.after < 1, Message: "--interval and --after: want at least 1s, and at least 1"},
		{Broken: f.Changed("keep-features") && (o.sums == "" || o.keep < 1), Message: "--keep-features is for --sums: want at least 1 sequence"},
		{Broken: o.sums != "" && o.weights != "", Message: "--sums and --class-weights: sums of features count all sequences alike: want one of them"},
		{Broken: f.Changed("adaptive") && !(o.adaptive > 0 && o.adaptive < 1), Message: fmt.Sprintf("--adaptive %v: want a rate above 0 and below 1, such as 0.01", o.adaptive)},
		{Broken: !o.follow && (f.Changed("interval") || f.Changed("after")), Message: "--interval and --after are for --follow"},
	})
}

// parseFlags parses the flags with a special syntax.
func (l *learning) parseFlags() (err error) {
	if l.without, err = learn.ParseExclusion(l.opt.without); err != nil {
		return err
	}
	if l.site, err = parseSite("--leave-out", l.opt.leaveOut); err != nil {
		return err
	}
	if err := l.weights.UnmarshalText([]byte(l.opt.weights)); err != nil {
		return fmt.Errorf("--class-weights %w", err)
	}
	l.sumsOf, err = parseSite("--sums", l.opt.sums)
	return err
}
