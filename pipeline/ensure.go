package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ensureJob returns the configuration with its defaults, and with the partitions of the
// job, whose NATS streams exist afterwards. If the number is not configured, a new job
// gets fresh partitions.
func ensureJob(ctx context.Context, js jetstream.JetStream, c Config, fresh int, log *slog.Logger) (Config, error) {
	if c.Partitions > 0 {
		c = c.WithDefaults()
		return c, store.EnsureStreams(ctx, js, c.layout(), log)
	}
	for {
		job := c
		var err error
		if job.Partitions, err = store.PartitionsOf(ctx, js, c.WithDefaults().Job); err != nil {
			return c, err
		}
		begun := job.Partitions > 0
		job.Partitions = cmp.Or(job.Partitions, fresh)
		job = job.WithDefaults()
		if err = store.EnsureStreams(ctx, js, job.layout(), log); err == nil || begun {
			return job, err
		}
		if now, other := store.PartitionsOf(ctx, js, job.Job); other != nil || now == 0 || now == job.Partitions {
			return job, err // not because another worker was quicker
		}
	}
}

// startsTogether is how far apart a job's NATS streams are made at most.
const startsTogether = time.Minute

// warnOfLoss warns about a job with an always empty output although other NATS streams
// of the job are older: the output may have been lost (a power failure under the
// default sync loses the last minutes), or the job is new on an older input. Only the
// operator can decide.
func warnOfLoss(out *jetstream.StreamInfo, others []*jetstream.StreamInfo, log *slog.Logger) {
	if out.State.LastSeq > 0 {
		return
	}
	var older []string
	for _, info := range others {
		if out.Created.Sub(info.Created) > startsTogether {
			older = append(older, fmt.Sprintf("%s (%d messages)", info.Config.Name, info.State.Msgs))
		}
	}
	if len(older) > 0 {
		slices.Sort(older)
		log.Warn("the output is new and empty, but other NATS streams of the job are older: if the job is new, ignore this line; if it has made predictions before, its output is lost, and they will be made again: stop the stage and restore the output", "output", out.Config.Name, "created", wire.CreatedText(out.Created), "older", strings.Join(older, ", "))
	}
}
