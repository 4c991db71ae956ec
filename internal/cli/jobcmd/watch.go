package jobcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

// topKept is how many of the last looks the curve shows.
const topKept = 60

// watchStatus shows a job until ctx ends, or once if there is no terminal.
func watchStatus(ctx context.Context, a *cli.App, look func() (*fleet.Report, error), every time.Duration) error {
	if a.JSON {
		return watchJSON(ctx, a, look, every)
	}
	r, err := look() // before the terminal is taken: an error stays to be read
	if err != nil {
		return err
	}
	screen := a.Terminal()
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
			lines = append([]string{"NO ANSWER, what stands here is old: " + cli.ErrorText(failed)}, lines...)
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

// watchJSON prints reports, a line each.
func watchJSON(ctx context.Context, a *cli.App, look func() (*fleet.Report, error), every time.Duration) error {
	enc := json.NewEncoder(a.Stdout)
	for {
		r, err := look()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
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

// level is a level's word, as it stands before the verdict.
func level(l fleet.Level) string {
	return map[fleet.Level]string{fleet.OK: "OK", fleet.Attention: "ATTENTION", fleet.Problem: "PROBLEM"}[cmp.Or(l, fleet.Problem)]
}

// curve draws values as a line of blocks, of which the highest is the largest value.
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
