package offlinecmd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// noveltyFlags request a detector of data unlike the training part.
type noveltyFlags struct {
	novelty bool
	healthy string
	alarms  string
	perDay  float64
	drift   bool
}

// allHealthy is --healthy-only without a class.
const allHealthy = "*"

func (n *noveltyFlags) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&n.novelty, "novelty", false, "also learn what is unlike the training part: predictions then have a novelty and its p-value (docs/novelty.md)")
	f.BoolVar(&n.drift, "drift", false, "--novelty, and also learn the distribution of the inputs: predictions then have level, spread and pace of each channel, for drift alarms (docs/alarm-rules.md)")
	f.StringVar(&n.healthy, "healthy-only", "", "learn from healthy data alone and predict normal or novel; --healthy-only=CLASS learns from that class only")
	f.Lookup("healthy-only").NoOptDefVal = allHealthy
	f.StringVar(&n.alarms, "false-alarms", "", "how often healthy data may be novel: a share of predictions, such as 0.001, or a rate for each stream, such as 1/day or 2/month (default 0.01)")
	f.Float64Var(&n.perDay, "predictions-per-day", 0, "predictions that a stream makes in a day, for --false-alarms with a rate (default: from sampling rate and policy)")
}

// parseFalseAlarms parses a share of predictions, or a rate such as 1/day. The unused result is 0.
func parseFalseAlarms(text string) (share, perDay float64, err error) {
	number, period, rate := strings.Cut(text, "/")
	v, err := strconv.ParseFloat(number, 64)
	days := map[string]float64{"hour": 1. / 24, "day": 1, "week": 7, "month": 30, "year": 365}[period]
	switch {
	case err != nil || !(v > 0) || rate && (days == 0 || v > 1e12) || !rate && v >= 1:
		return 0, 0, fmt.Errorf("--false-alarms %q: want a share of predictions between 0 and 1, such as 0.001, or a rate, such as 1/day, of hour, day, week, month (30 days) or year", text)
	case rate:
		return 0, v / days, nil
	}
	return v, 0, nil
}

// options reads the flags; nil: no detector is requested.
func (n *noveltyFlags) options(f *pflag.FlagSet) (*offline.NoveltyOptions, error) {
	if !n.novelty && !n.drift && n.healthy == "" {
		for _, name := range []string{"false-alarms", "predictions-per-day", "healthy-only"} {
			if f.Changed(name) {
				return nil, fmt.Errorf("--%s: want it with --novelty, --drift or --healthy-only", name)
			}
		}
		return nil, nil
	}
	o := &offline.NoveltyOptions{HealthyOnly: n.healthy != "", Inputs: n.drift, PerDay: n.perDay}
	if n.healthy != allHealthy {
		o.Healthy = n.healthy
	}
	if f.Changed("predictions-per-day") && !(n.perDay > 0 && n.perDay <= 1e12) {
		return nil, fmt.Errorf("--predictions-per-day %v: want a positive number", n.perDay)
	}
	if !f.Changed("false-alarms") {
		return o, nil
	}
	var err error
	if o.Level, o.AlarmsPerDay, err = parseFalseAlarms(n.alarms); err != nil {
		return nil, err
	}
	return o, nil
}

// sayNovelty describes the training data of a detector, and its possible output. detects reports a model of healthy
// data.
func sayNovelty(a *cli.App, r offline.RetrainReport, detects bool) {
	n := r.Novelty
	if n == nil {
		return
	}
	a.Print("novelty    from %d sequences in %d groups; a share of %.3g of sequences like these will be novel; p-values from %.3g", n.Sequences, n.Groups, n.Level, n.Least)
	sayLater(a, n.Later, detects)
	if len(n.Inputs) > 0 {
		a.Print("inputs     level, spread and pace of %d channels are read from the features: of their variance, in leave-one-out, %.3f at least and %.3f in the median", len(n.Inputs)/novelty.InputsOf, slices.Min(n.Inputs), median(n.Inputs))
	}
	var found []string
	for _, c := range n.Checks {
		found = append(found, fmt.Sprintf("%s %d of %d", c.Signal, c.Novel, c.Sequences))
	}
	a.Print("check      novel, of sequences at the scale of the data: %s", strings.Join(found, ", "))
	if missed := missedSignals(n.Checks); len(missed) > 0 && n.Level >= n.Least {
		a.Say("warning: the detector finds less than half of %s: it may find no fault either", strings.Join(missed, ", "))
	}
	if n.Groups < detect.Folds {
		a.Say("warning: the training sequences come from %d separate stretches or groups: if these are unlike each other, what is left out looks like a fault, and real faults are not novel; train on at least %d, several of each kind of healthy operation", n.Groups, detect.Folds)
	}
	if n.Level < n.Least {
		a.Say("warning: nothing will be novel: that needs at least %.0f training sequences, or --false-alarms %.2g", math.Ceil(1/n.Level)-1, math.Ceil(n.Least*1000)/1000)
	}
	if n.Sequences < r.Sequences {
		a.Say("note: %d of %d sequences were kept for the detector", n.Sequences, r.Sequences)
	}
}

// sayLater prints the measured false alarms of a model of healthy data.
func sayLater(a *cli.App, l *novelty.Later, detects bool) {
	if l == nil {
		if detects {
			a.Say("note: the false alarms on later healthy data were not measured: this requires healthy runs of at least three sequences without common samples")
		}
		return
	}
	a.Print("later      %s", models.LaterText(l))
	switch {
	case !l.Holds():
		a.Say("warning: the promised share of false alarms does not hold on later healthy data: healthy operation changes in time; train on more healthy runs, of other days and other loads, and require several predictions in an alarm rule, such as: novel %.3g, 3 of 5", l.Level)
	case l.Separate < l.Needed():
		a.Say("note: the healthy data are too short to confirm the promised share of false alarms: this requires at least %d sequences without common samples in the last thirds; train on more or longer healthy runs", l.Needed())
	}
}

func median(x []float64) float64 {
	return slices.Sorted(slices.Values(x))[len(x)/2]
}

// printNovelty prints an evaluation's figures for a detector.
func printNovelty(a *cli.App, n *offline.NoveltyCount) {
	if n == nil {
		return
	}
	a.Print("novelty    at a level of %.3g: %d of %d sequences of known classes are novel", n.Level, n.FalseAlarms, n.Known)
	if n.Unknown > 0 {
		a.Print("           of other classes: %d of %d are novel; AUROC %s", n.Found, n.Unknown, shown(n.AUROC))
	}
}

// fewestFound is the share of a signal's sequences below which a detector hardly finds the signal.
const fewestFound = 0.5

// missedSignals returns the signals that a detector hardly finds.
func missedSignals(checks []detect.Check) (missed []string) {
	for _, c := range checks {
		if float64(c.Novel) < math.Ceil(fewestFound*float64(c.Sequences)) {
			missed = append(missed, c.Signal)
		}
	}
	return missed
}
