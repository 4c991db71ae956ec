package admin

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Consumers describes the consumers of a NATS stream.
type Consumers struct {
	Stream string
	Has    int
	Limit  int    // the limit, by the NATS stream and the account
	Few    string // the reason why the limit is too low for the job's partitions; empty = high enough
}

// Consumers returns the consumers of the job's input, and of its output.
func (j *Job) Consumers(ctx context.Context) (all []Consumers, err error) {
	account, err := j.job.JS.AccountInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("admin: limits of the account: %w", err)
	}
	in := wire.InputStream(j.InputJob())
	for _, name := range []string{in, wire.OutputStream(j.Name())} {
		s, err := j.job.JS.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("admin: NATS stream %s: %w", name, err)
		}
		info := s.CachedInfo()
		c := Consumers{Stream: name, Has: info.State.Consumers, Limit: store.ConsumerLimit(info.Config, account)}
		if name == in {
			c.Few = store.FewConsumers(info.Config, account, j.job.Partitions)
		}
		all = append(all, c)
	}
	return all, nil
}

// ConsumersOfNew returns the consumers of the input that a stage would create for a job
// with the given partitions.
func ConsumersOfNew(ctx context.Context, js jetstream.JetStream, job string, partitions, replicas int) (Consumers, error) {
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return Consumers{}, fmt.Errorf("admin: limits of the account: %w", err)
	}
	in := jetstream.StreamConfig{Name: wire.InputStream(job), MaxConsumers: store.MaxConsumers, Replicas: replicas}
	return Consumers{Stream: in.Name, Limit: store.ConsumerLimit(in, account), Few: store.FewConsumers(in, account, partitions)}, nil
}
