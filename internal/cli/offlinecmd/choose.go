package offlinecmd

import (
	"context"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/choose"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// defaultSearch is the nominal time of a search.
const defaultSearch = time.Minute

const searchUsage = "budget for choosing what is not given: of a continuous recording the policy with length and hop, and the front end; with this flag, also the front end of other data. Counted in work, not time: about this time on one slow core; 0 = no search, the defaults"

// searchSettings chooses the open settings, and returns the tried settings.
func searchSettings(ctx context.Context, a *cli.App, src archives.Labeled, o *offline.RetrainOptions, open choose.Open, b choose.Budget, grouped bool) ([]reservoir.Choice, error) {
	data, err := src.Trials(ctx, *o)
	if err != nil {
		return nil, err
	}
	signal, err := choose.Measure(ctx, data)
	if err != nil {
		return nil, err
	}
	spec := o.Spec
	if spec.Kind == reservoir.Mixed {
		spec, _ = reservoir.Bank("tiny", spec.Channels) // a known bank
		spec.Seed = o.Spec.Seed
	}
	given := choose.Setting{Policy: o.Policy, Front: o.Front}
	p := a.Progress()
	results, err := choose.Search(ctx, given, b, signal, spec, open, choose.NewTry(data, signal, grouped, *o, spec), p.Report)
	p.Close()
	if err != nil {
		return nil, err
	}
	sayChoice(a, results, signal, given, o.Target != "")
	var choices []reservoir.Choice
	for _, r := range results {
		if r.Chosen {
			o.Policy, o.Front = r.Policy, r.Front
		}
		if r.Round > 0 && r.Failed == "" {
			choices = append(choices, reservoir.Choice{Settings: r.String(), Error: r.Error, Deviation: r.Deviation, Sequences: r.Sequences, Cost: r.Cost(), Chosen: r.Chosen})
		}
	}
	return choices, nil
}

// sayChoice prints a table of the tried settings.
func sayChoice(a *cli.App, results []choose.Result, s choose.Signal, given choose.Setting, numbers bool) {
	if len(results) == 1 {
		a.Say("no search: the data are too large for two candidates within the budget, or there is no other candidate: give more with --search; using %s", results[0])
		return
	}
	what := "error is 1 less the mean AUROC"
	if numbers {
		what = "error is the root mean squared error"
	}
	a.Say("search: correlation length %d samples, of the magnitude %d; %s of left-out sequences by the bank tiny; cost is network steps per sample; --search 0 would take %s", s.Memory, s.Envelope, what, given)
	a.Say("  %-8s %-8s %9s %6s  %s", "error", "+-", "sequences", "cost", "settings")
	for _, r := range results {
		mark := ""
		if r.Chosen {
			mark = "  <- chosen"
		}
		switch {
		case r.Failed != "":
			a.Say("  %-8s %-8s %9s %6.3g  %s: %s", "-", "-", "-", r.Cost(), r, r.Failed)
		default:
			a.Say("  %-8.4g %-8.2g %9d %6.3g  %s%s", r.Error, r.Deviation, r.Sequences, r.Cost(), r, mark)
		}
	}
}
