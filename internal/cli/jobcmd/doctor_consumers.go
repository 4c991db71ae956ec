package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// checkConsumers reports the consumers of the job's NATS streams and their limit.
func checkConsumers(ctx context.Context, b *server.Broker, c config.Config) Finding {
	f := Finding{"consumers", "ok", "the embedded server sets no limit of its own."}
	if c.NATS.URL == "" {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	unknown := func(err error) Finding {
		return Finding{f.Subject, "note", fmt.Sprintf("how many consumers there may be is unknown: %s.", cli.ErrorText(err))}
	}
	nc, err := b.Dial(ctx, "eusn-doctor/consumers")
	if err != nil {
		return unknown(errors.New("the server cannot be reached"))
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return unknown(err)
	}
	var all []admin.Consumers
	job, err := admin.Open(ctx, js, c.Job)
	switch {
	case err == nil:
		all, err = job.Consumers(ctx)
	case errors.Is(err, admin.ErrNoJob) && c.Input.Job == "":
		all = make([]admin.Consumers, 1)
		plan := server.PipelineConfig(c).WithDefaults()
		all[0], err = admin.ConsumersOfNew(ctx, js, c.Job, plan.Partitions, plan.Replicas)
	}
	if err != nil {
		return unknown(err)
	}
	var has, why []string
	for _, s := range all {
		has = append(has, fmt.Sprintf("%s has %d of at most %d", s.Stream, s.Has, s.Limit))
		if s.Few != "" {
			f.Status = "problem"
			why = append(why, s.Few)
		}
		if float64(s.Has) > store.ManyConsumers*float64(s.Limit) {
			f.Status = "problem"
			why = append(why, fmt.Sprintf("few are left in %s, and then nobody can read it any more: look whose they are (nats consumer report %s), and remove those that nobody uses (nats consumer rm %s NAME)", s.Stream, s.Stream, s.Stream))
		}
	}
	f.Sentence = strings.Join(append([]string{strings.Join(has, ", ")}, why...), "; ") + "."
	return f
}
