package jobcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

// topKept is how many of the last looks the curve shows.
const topKept = 60

// NewTop is "top".
func NewTop(a *cli.App) *cobra.Command {
	every, once := 2*time.Second, false
	with := server.Beside{As: "top", Stage: func() bool { return !once }, Failure: func(err error) error { return cli.Fail(cli.ExitFailure, err, statusNext) }}
	cmd := server.RunningCommand(a, &cobra.Command{
		Use:   "top",
		Short: "Show in the terminal how a job is, again and again",
		Long: `Show how a job is, over the network: the verdict in one sentence, what to do first, samples
and predictions a second, lag, the map of partitions, those that are furthest behind, the
workers, the mix of classes, alarms, and what happened last. It is redrawn until Ctrl-C. It
is what the live page shows (docs/page.md), for all workers at once.

Where standard output is no terminal, or with --once, it prints one look and ends. --json
prints the report of "status --json" on one line for each look, until Ctrl-C; with --once one.

The letters of the map: . is read, C is being claimed, R restored, P replayed, L released, D is
deferred, X stopped, N nobody's, ? not known.

It changes nothing. How a job is in a script: eusn-stream status.`,
		Example: `  eusn-stream top
  eusn-stream top --interval 10s --nats-url nats://127.0.0.1:4222 --job eusn
  eusn-stream top --once`,
		Args: cobra.NoArgs,
	}, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		if every < 100*time.Millisecond {
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--interval %v, want 100ms or more", every), "eusn-stream top --help")
		}
		look := func() (*fleet.Report, error) {
			r, err := fleet.BuildReport(ctx, js.Conn(), c.Job)
			if err == nil {
				judge(a, r, fleet.DefaultBehind)
			}
			return r, err
		}
		return top(ctx, a, look, every, once)
	})
	cmd.Flags().DurationVarP(&every, "interval", "n", every, "how long it waits between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "print one look and end")
	return cmd
}

// top looks at a job until ctx ends, or once.
func top(ctx context.Context, a *cli.App, look func() (*fleet.Report, error), every time.Duration, once bool) error {
	if a.JSON {
		return topJSON(ctx, a, look, every, once)
	}
	r, err := look() // before the terminal is taken: an error stays to be read
	if err != nil {
		return err
	}
	screen := a.Terminal(!once)
	if screen == nil {
		for _, line := range topText(r, nil, topPlain) {
			a.Print("%s", line)
		}
		return nil
	}
	defer screen.Close()
	var past []float64
	var failed error
	for {
		var lines []string
		columns, _ := screen.Size()
		if r != nil {
			if past = append(past, r.Rates.Samples); len(past) > topKept {
				past = past[1:]
			}
			lines = topText(r, past, columns)
		}
		if failed != nil {
			lines = append([]string{"NO ANSWER, what stands here is old: " + failed.Error()}, lines...)
		}
		if err := screen.Draw(lines); err != nil {
			return err
		}
		if !pause(ctx, every) {
			return nil
		}
		next, err := look()
		if ctx.Err() != nil {
			return nil
		}
		if failed = err; err == nil {
			r = next
		}
	}
}

// topJSON prints reports, a line each.
func topJSON(ctx context.Context, a *cli.App, look func() (*fleet.Report, error), every time.Duration, once bool) error {
	enc := json.NewEncoder(a.Stdout)
	for {
		r, err := look()
		if ctx.Err() != nil && !once {
			return nil
		}
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil || once {
			return err
		}
		if !pause(ctx, every) {
			return nil
		}
	}
}

// pause reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-wait.Done()
	return errors.Is(wait.Err(), context.DeadlineExceeded) && ctx.Err() == nil
}

// level returns a level's word before the verdict.
func level(l fleet.Level) string {
	return map[fleet.Level]string{fleet.OK: "OK", fleet.Attention: "ATTENTION", fleet.Problem: "PROBLEM"}[cmp.Or(l, fleet.Problem)]
}

// curve draws values as a line of blocks, scaled to the largest value.
func curve(values []float64) string {
	const blocks = "▁▂▃▄▅▆▇█"
	most := 0.
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 {
			i = int(v / most * 7.999)
		}
		b.WriteRune([]rune(blocks)[max(0, min(7, i))])
	}
	return b.String()
}
