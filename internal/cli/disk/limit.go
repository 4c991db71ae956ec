package disk

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

const (
	// shares is the divisor of a job's space for the limit of each of three NATS streams. The
	// embedded server uses three quarters of the space: some is left for the states.
	shares = 5
	// keptShare is the fraction of a limit that stays after a removal.
	keptShare = .9
	// checkEvery is the interval of the checks against the limits.
	checkEvery = 10 * time.Second
	// pauseAfter is the pause after a removal without effect.
	pauseAfter = time.Minute
)

// sharedKey returns the configuration key that limits a NATS stream to a share of the space; empty
// if another limit, or none, is configured.
func sharedKey(c config.Config, stream string) string {
	switch kind := streamKind(stream); {
	case kind == "IN" && c.Input.MaxBytes < 0:
		return "input.max_bytes"
	case kind == "OUT" && c.Output.Keep < 0:
		return "output.keep"
	case kind == "DLQ" && c.DeadLetters.Keep > 0:
		return "dead_letters.keep"
	}
	return ""
}

// limitOf returns the limit of each NATS stream of a job: a share of its stored data and the free
// space; NaN if the space is unknown.
func limitOf(g admin.Growth, room space) float64 {
	total := room.shared
	for _, s := range g.Streams {
		total += float64(s.Bytes)
	}
	return total / shares
}

// addLimit adds the limit to the limits of the NATS streams themselves.
func addLimit(g admin.Growth, c config.Config, limit float64) admin.Growth {
	for i := range g.Streams {
		s := &g.Streams[i]
		if key := sharedKey(c, s.Stream); key != "" && !math.IsNaN(limit) {
			s.Bounds = append(s.Bounds, fmt.Sprintf("%s GB (%s; the oldest messages are deleted)", gigabytes(limit), key))
			s.Most = min(s.Most, max(limit, float64(s.Bytes)))
		}
	}
	return g
}

// limiter removes the oldest messages of a job beyond the limit of each NATS stream.
type limiter struct {
	js     jetstream.JetStream
	conf   config.Config
	log    *slog.Logger
	limit  float64       // bytes; NaN = none
	age    time.Duration // younger input stays
	why    string        // the last logged reason for a removal without effect
	paused time.Time     // until then
}

// enforceLimit removes the oldest messages of the NATS streams that are larger than the limit.
func (l *limiter) enforceLimit(ctx context.Context, g admin.Growth) {
	ctx, cancel := context.WithTimeout(ctx, pauseAfter)
	defer cancel()
	for _, s := range g.Streams {
		key := sharedKey(l.conf, s.Stream)
		if key == "" || !(float64(s.Bytes) > l.limit) || time.Now().Before(l.paused) {
			continue
		}
		args := []any{"stream", s.Stream, "gb", gigabytes(float64(s.Bytes)), "limit_gb", gigabytes(l.limit), "key", key}
		removed, why := l.removeOldest(ctx, s.Stream)
		if removed > 0 {
			l.why = ""
			l.log.Info("disk: the oldest messages were deleted, to stay within the limit", append(args, "messages", removed)...)
			continue
		}
		l.paused = time.Now().Add(pauseAfter)
		if why != l.why && ctx.Err() == nil {
			l.why = why
			l.log.Warn("disk: the limit is exceeded, and nothing can be deleted", append(args, "why", why)...)
		}
	}
}

// removeOldest removes the oldest messages of a NATS stream that no job needs, and returns their
// number, or the reason for 0.
func (l *limiter) removeOldest(ctx context.Context, stream string) (removed uint64, why string) {
	keep := max(1, uint64(keptShare*l.limit))
	if streamKind(stream) != "IN" {
		removed, err := admin.RemoveOldest(ctx, l.js, stream, keep)
		return removed, fmt.Sprint(err)
	}
	d, err := admin.Trim{Job: l.conf.Job, Keep: l.age, Bytes: keep}.Run(ctx, l.js)
	switch {
	case err != nil:
		return 0, err.Error()
	case d.Young || len(d.Needs) == 0:
		return d.Removed, fmt.Sprintf("no job needs the oldest input, but it is younger than %v", l.age)
	}
	return d.Removed, fmt.Sprintf("job %s needs the oldest input", d.Needs[0].Job)
}
