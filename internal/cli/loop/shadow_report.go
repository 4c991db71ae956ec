package loop

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/trial"
)

// reportShadows prints how a job's shadows do.
func reportShadows(ctx context.Context, a *cli.App, js jetstream.JetStream, job, only string) error {
	r, err := trial.Read(ctx, js, job, only)
	if err != nil {
		return err
	}
	if a.JSON {
		r.Shadows = append([]trial.Result{}, r.Shadows...)
		return a.PrintJSON(r)
	}
	a.Print("active  %s", r.Active)
	for i := range r.Shadows {
		printResult(a, &r.Shadows[i])
	}
	if len(r.Shadows) == 0 {
		a.Say("the job has no shadows: eusn-stream model shadow add FINGERPRINT makes one")
	}
	if r.Labels == 0 {
		a.Say("the job has no labels, so nobody knows which of the two is right: eusn-stream labels add")
	}
	if r.Foreign > 0 {
		a.Say("warning: %d messages in the NATS stream of the shadows are not ours: another program publishes there", r.Foreign)
	}
	return nil
}

func printResult(a *cli.App, s *trial.Result) {
	ended := ""
	if !s.Shadow {
		ended = "  (no shadow any more)"
	}
	a.Print("shadow  %s%s", s.Readout, ended)
	if s.Predictions == 0 {
		a.Print("  predictions  none in parallel to the active readout")
		if s.Shadow {
			a.Say("a worker that cannot score a shadow logs the reason; eusn_shadow_missed_total counts the omitted predictions")
		}
	} else {
		a.Print("  predictions  %d from %s to %s", s.Predictions, s.Since.UTC().Format(time.RFC3339), s.Until.UTC().Format(time.RFC3339))
		a.Print("  agreement    %s", share(int(s.Agreeing), int(s.Predictions)))
	}
	if s.Labeled > 0 {
		a.Print("  right        active %s, shadow %s of labeled sequences", share(s.ActiveRight, s.Labeled), share(s.ShadowRight, s.Labeled))
		a.Print("  one right    active alone %d, shadow alone %d: p %.3g", s.ActiveOnly, s.ShadowOnly, s.P)
	} else {
		a.Print("  right        not known: no labeled sequences")
	}
	for _, n := range []struct {
		count uint64
		text  string
	}{
		{s.Missing, "predictions that the shadow lacks"}, {s.Others, "predictions in parallel to another readout, or alone: not compared"},
		{uint64(s.Disputed), "sequences with labels that disagree: not compared"}, {uint64(s.Pending), "labels about no sequence that it has predicted"},
	} {
		if n.count > 0 {
			a.Print("  besides      %d %s", n.count, n.text)
		}
	}
}

// share is a share for people.
func share(n, of int) string { return fmt.Sprintf("%.4f (%d of %d)", float64(n)/float64(of), n, of) }
