package server

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// JobModel returns the model for a command about a job, and the model's name: the file of --model,
// else the model in the job's registry that predicts now, else, of a job without a registry, the
// configured file.
func JobModel(ctx context.Context, a *cli.App, js jetstream.JetStream, c config.Config) (*reservoir.Model, string, error) {
	if !a.Changed("model") {
		m, name, err := activeModel(ctx, js, c.Job)
		switch {
		case err == nil, errors.Is(err, admin.ErrNoJob):
			return m, name, err
		case !errors.Is(err, registry.ErrNone):
			return nil, "", cli.Fail(cli.ExitFailure, err, "the same command with --model and the job's model file")
		}
	}
	m, err := models.LoadForStage(c.Model)
	return m, filepath.Base(c.Model), err
}

// JobModel is the function JobModel on the server of the broker.
func (b *Broker) JobModel(ctx context.Context, a *cli.App, c config.Config) (*reservoir.Model, string, error) {
	nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/model")
	if err != nil {
		return nil, "", err
	}
	defer nc.Close()
	return JobModel(ctx, a, js, c)
}

// activeModel returns the model in a job's registry that predicts now.
func activeModel(ctx context.Context, js jetstream.JetStream, job string) (*reservoir.Model, string, error) {
	r, err := registry.Open(ctx, js, job)
	if err != nil {
		return nil, "", err
	}
	e, err := r.Active(ctx)
	if err != nil {
		return nil, "", err
	}
	m, _, _, err := r.Model(ctx, e.Fingerprint)
	return m, e.Model, err
}
