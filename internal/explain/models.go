package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
)

// models are what a prediction is computed with.
type models struct {
	job    pipeline.Job        // with the job's model
	linear *readout.Linear     // that made the prediction; nil: it is not known
	why    string              // it is not
	name   string              // of the readout: its fingerprint
	first  bool                // the job began with it
	entry  *registry.Entry     // of the registry; nil: it has none
	took   *pipeline.Promotion // the newest promotion of it before the prediction; nil: not known

	network string // of the prediction, where the job has another one now (job replace); else empty
}

// models finds the model of the job and the readout of a prediction.
func (x *Explainer) models(ctx context.Context, f *Found) (*models, error) {
	j, err := store.Open(ctx, x.JS, x.Job.Config.WithDefaults().Job)
	if err != nil {
		return nil, err
	}
	entry, _, err := store.ReadEntry(ctx, j.Out, j.Name)
	if err != nil {
		return nil, err
	}
	m := &models{job: x.Job}
	m.job.Config.Partitions = j.Partitions
	all, lost := registry.Open(ctx, x.JS, j.Name)
	if lost != nil && !errors.Is(lost, registry.ErrNone) {
		return nil, lost
	}
	first := entry.Readout
	if was := f.record.Identity; was.Network != "" && was.Network != entry.Network {
		m.network, first = was.Network, was.Readout
	}
	if m.job.Model == nil {
		if m.network != "" {
			return nil, fmt.Errorf("explain: the prediction was made before job %q got the network of another job (job replace), and its registry gives models of the network that it has now: %w", j.Name, ErrNoModel)
		}
		if lost == nil {
			lost = m.firstOf(ctx, all, first, entry.Input)
		}
		if lost != nil {
			return nil, fmt.Errorf("explain: the model of job %q is not in its registry: %w: %w", j.Name, lost, ErrNoModel)
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
		m.name = nameOf(ctx, all, first, entry.Input, own)
	}
	m.find(ctx, all, linear, own)
	m.took = lastPromotion(entry.Promotions, m.name, f.Stored)
	return m, nil
}

// nameOf is the fingerprint of the readout with an identity, in the registry or the model's own;
// empty if it is neither.
func nameOf(ctx context.Context, all *registry.Models, identity, input, own string) string {
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

// lastPromotion is the last promotion of a readout before a prediction was stored, or nil.
func lastPromotion(all []pipeline.Promotion, readout string, stored time.Time) *pipeline.Promotion {
	for _, p := range slices.Backward(all) {
		if p.Readout == readout && !p.When.After(stored) {
			return &p
		}
	}
	return nil
}

// firstOf takes the model that the job began with.
func (m *models) firstOf(ctx context.Context, all *registry.Models, identity, input string) error {
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

// find finds the readout that made a prediction: of the stage's model, of which linear
// is the one with the fingerprint own, or of the registry.
func (m *models) find(ctx context.Context, all *registry.Models, linear *readout.Linear, own string) {
	if m.name == own {
		m.linear = linear
	}
	var err error
	if all != nil && m.name != "" {
		var e registry.Entry
		if e, err = all.Look(ctx, m.name); err == nil {
			m.entry = &e
		}
	}
	for _, l := range m.job.Model.Readouts {
		if name, wrong := registry.Fingerprint(m.job.Model, l); m.linear == nil && wrong == nil && name == m.name {
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
