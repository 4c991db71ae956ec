package offlinecmd

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/offline"
)

// DecideFlags request a rule for sufficient early predictions.
type DecideFlags struct {
	decide bool
	loss   float64
}

const defaultLoss = 0.01

// Add adds the flags.
func (d *DecideFlags) Add(f *pflag.FlagSet) {
	f.BoolVar(&d.decide, "decide", false, "with --early N: also learn from the prefixes of N, 2N, ... samples, and when one suffices for its class (docs/early.md)")
	f.Float64Var(&d.loss, "decide-loss", defaultLoss, "share of the sequences, by leave-one-out, whose class deciding early may cost")
}

// Options reads the flags; nil: nothing is decided early.
func (d *DecideFlags) Options(f *pflag.FlagSet) (*offline.EarlyOptions, error) {
	switch {
	case !d.decide && f.Changed("decide-loss"):
		return nil, fmt.Errorf("--decide-loss: want it with --decide")
	case !d.decide:
		return nil, nil
	case !(d.loss > 0 && d.loss < 1):
		return nil, fmt.Errorf("--decide-loss %v: want a share of the sequences, above 0 and below 1, such as 0.01", d.loss)
	}
	return &offline.EarlyOptions{Loss: d.loss}, nil
}

// sayEarly prints the leave-one-out quality of early decisions.
func sayEarly(a *cli.App, r offline.RetrainReport) {
	e := r.Early
	if e == nil {
		return
	}
	a.Print("early      %.1f %% of %d sequences are decided before their end, all in the mean after a share of %.3f of their samples; accuracy %.4f, at the ends %.4f (leave-one-out)",
		100*e.Decided, e.Sequences, e.Earliness, e.Accuracy, e.Whole)
	if e.Decided == 0 {
		a.Say("warning: no prefix suffices at a loss of %v: every sequence is decided at its end; allow more (--decide-loss), or predict at other places (--early)", e.Loss)
	}
}

// printDecided prints the quality of early decisions in an evaluation.
func printDecided(a *cli.App, e *offline.EarlyReport) {
	if e != nil {
		a.Print("%s", DecidedText(*e))
	}
}

// DecidedText is the quality of early decisions in words.
func DecidedText(e offline.EarlyReport) string {
	return fmt.Sprintf("decided early: %.1f %% of %d sequences, all in the mean after a share of %.3f of their samples; accuracy %.4f", 100*e.Decided, e.Sequences, e.Earliness, e.Accuracy)
}
