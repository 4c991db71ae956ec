package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
)

// predictionModel is the model and readout of a prediction.
type predictionModel struct {
	job       pipeline.Job    // with the job's model
	linear    *readout.Linear // the prediction's readout; nil: unknown
	why       string          // reason for an unknown readout
	name      string          // fingerprint of the readout
	first     bool            // the job's first readout
	entry     *registry.Entry // in the registry; nil: none
	promotion *wire.Promotion // the newest promotion of the readout before the prediction; nil: unknown

	network string // of the prediction, if the job has another network now (job replace); else empty
}

// findModel finds the model of the job and the readout of a prediction.
func (x *Explainer) findModel(ctx context.Context, f *Found) (*predictionModel, error) {
	j, err := store.Open(ctx, x.JS, x.Job.Config.WithDefaults().Job)
	if err != nil {
		return nil, err
	}
	entry, _, err := store.ReadEntry(ctx, j.Out, j.Name)
	if err != nil {
		return nil, err
	}
	m := &predictionModel{job: x.Job}
	m.job.Config.Partitions = j.Partitions
	all, registryErr := registry.Open(ctx, x.JS, j.Name)
	if registryErr != nil && !errors.Is(registryErr, registry.ErrNone) {
		return nil, registryErr
	}
	first := entry.Readout
	if identity := f.record.Identity; identity.Network != "" && identity.Network != entry.Network {
		m.network, first = identity.Network, identity.Readout
	}
	if m.job.Model == nil {
		if m.network != "" {
			return nil, fmt.Errorf("explain: the prediction was made before job %q got the network of another job (job replace), and its registry gives models of the network that it has now: %w", j.Name, ErrNoModel)
		}
		if registryErr == nil {
			registryErr = m.loadFirstModel(ctx, all, first, entry.Input)
		}
		if registryErr != nil {
			return nil, fmt.Errorf("explain: the model of job %q is not in its registry: %w: %w", j.Name, registryErr, ErrNoModel)
		}
	}
	linear, err := registry.Pick(m.job.Model, m.job.Config.Readout)
	if err != nil {
		return nil, err
	}
	own, err := registry.Fingerprint(m.job.Model, linear)
	if err != nil {
		return nil, err
	}
	m.name = f.Prediction.Readout
	m.first = m.name == "" || m.name == f.Meta.First
	if m.name == "" {
		m.name = fingerprintOf(ctx, all, first, entry.Input, own)
	}
	m.findReadout(ctx, all, linear, own)
	m.promotion = lastPromotion(entry.Promotions, m.name, f.Stored)
	return m, nil
}

// fingerprintOf returns the fingerprint of the readout with an identity, in the registry or in the
// model; empty if unknown.
func fingerprintOf(ctx context.Context, all *registry.Models, identity, input, own string) string {
	if all != nil {
		if e, err := all.Find(ctx, identity, input); err == nil && e.Fingerprint != "" {
			return e.Fingerprint
		}
	}
	if all == nil || registry.Identity(own, input) == identity {
		return own
	}
	return ""
}

// lastPromotion returns the last promotion of a readout before a prediction was stored, or nil.
func lastPromotion(all []wire.Promotion, readout string, stored time.Time) *wire.Promotion {
	for _, p := range slices.Backward(all) {
		if p.Readout == readout && !p.When.After(stored) {
			return &p
		}
	}
	return nil
}

// loadFirstModel loads the job's first model.
func (m *predictionModel) loadFirstModel(ctx context.Context, all *registry.Models, identity, input string) error {
	e, err := all.Find(ctx, identity, input)
	if err != nil {
		return err
	}
	model, linear, _, err := all.Model(ctx, e.Fingerprint)
	if err != nil {
		return err
	}
	m.job.Model, m.job.ModelName, m.job.Config.Readout = model, e.Model, linear.Name
	return nil
}

// findReadout finds the readout of a prediction: in the stage's model, whose readout linear has the
// fingerprint own, or in the registry.
func (m *predictionModel) findReadout(ctx context.Context, all *registry.Models, linear *readout.Linear, own string) {
	if m.name == own {
		m.linear = linear
	}
	var err error
	if all != nil && m.name != "" {
		var e registry.Entry
		if e, err = all.FindEntry(ctx, m.name); err == nil {
			m.entry = &e
		}
	}
	for _, l := range m.job.Model.Readouts {
		if name, fingerprintErr := registry.Fingerprint(m.job.Model, l); m.linear == nil && fingerprintErr == nil && name == m.name {
			m.linear = l
		}
	}
	if m.linear == nil && m.entry != nil {
		_, m.linear, _, err = all.Model(ctx, m.name)
	}
	if m.linear == nil {
		m.why = fmt.Sprintf("the readout %s, which made the prediction, is not in the job's registry and not in the model", m.name)
		if err != nil {
			m.why = fmt.Sprintf("the readout that made the prediction cannot be read: %v", err)
		}
	}
}
