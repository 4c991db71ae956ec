package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MaxEntries is how many models a registry takes.
const MaxEntries = 10_000

var (
	// ErrNone reports a job without a registry.
	ErrNone = store.ErrNoModels
	// ErrNoEntry reports a fingerprint missing in the registry.
	ErrNoEntry = errors.New("the job's registry has no such model")
	// ErrDamaged reports an entry with a change of the published content.
	ErrDamaged = errors.New("publish the same model again, which repairs the entry")
	// ErrOtherNetwork reports a model that does not fit the job's states.
	ErrOtherNetwork = errors.New("a readout can only be changed within one network, because the states stay: train a readout for the job's network, or begin a new job with this model")
	// ErrRetired reports a retired entry.
	ErrRetired = errors.New("it can be read, but does not predict again")
	// ErrActive reports an active entry, which cannot be retired.
	ErrActive = errors.New("the job predicts with it")
)

// Models is the registry of a job. Several goroutines may call the methods.
type Models struct {
	job   string
	store *store.Models
	out   jetstream.Stream
}

// Open finds the registry of a job. The errors are wire.ErrNoJob and ErrNone.
func Open(ctx context.Context, js jetstream.JetStream, job string) (*Models, error) {
	out, err := outputOf(ctx, js, job)
	if err != nil {
		return nil, err
	}
	s, err := store.FindModels(ctx, js, job)
	if err != nil {
		return nil, err
	}
	return &Models{job, s, out}, nil
}

// Make is Open, but creates a missing registry, with as many replicas as the job's
// output.
func Make(ctx context.Context, js jetstream.JetStream, job string) (*Models, error) {
	m, err := Open(ctx, js, job)
	if !errors.Is(err, ErrNone) {
		return m, err
	}
	out, err := outputOf(ctx, js, job)
	if err != nil {
		return nil, err
	}
	s, err := store.OpenModels(ctx, js, job, out.CachedInfo().Config.Replicas)
	if err != nil {
		return nil, store.AccountWants(err)
	}
	return &Models{job, s, out}, nil
}

func outputOf(ctx context.Context, js jetstream.JetStream, job string) (jetstream.Stream, error) {
	out, err := js.Stream(ctx, wire.OutputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("registry: %w %q: has the stage run with this job name?", wire.ErrNoJob, job)
	}
	if err != nil {
		return nil, fmt.Errorf("registry: job %q: %w", job, err)
	}
	return out, nil
}

// Publish stores a model for a begun job, under the named readout, or the first. stored
// is false if the registry has this readout: the entry stays unchanged. file is the name
// shown in predictions.
func (r *Models) Publish(ctx context.Context, m *reservoir.Model, file, readoutName string, l Lineage) (e Entry, stored bool, err error) {
	linear, err := Pick(m, readoutName)
	if err != nil {
		return Entry{}, false, err
	}
	job, _, err := store.ReadEntry(ctx, r.out, r.job)
	if err != nil {
		return Entry{}, false, err
	}
	if job.Network == "" {
		return Entry{}, false, fmt.Errorf("registry: job %q has no model yet: its first worker decides on which network it runs, and publishes its model", r.job)
	}
	network, err := networkOf(m, job.Arithmetic)
	if err != nil {
		return Entry{}, false, err
	}
	if network != job.Network {
		return Entry{}, false, r.otherNetwork(ctx, job, file, m)
	}
	if l.Parent != "" {
		if _, err := r.FindEntry(ctx, l.Parent); err != nil {
			return Entry{}, false, fmt.Errorf("registry: parent: %w", err)
		}
	}
	return r.Add(ctx, m, linear, network, file, l)
}

// otherNetwork reports the differences of a model from the job's network.
func (r *Models) otherNetwork(ctx context.Context, job wire.Entry, file string, m *reservoir.Model) error {
	what := "the network (weights and input scaling), the policy, the channels or the front end"
	if active, err := r.Active(ctx); err == nil {
		if ours, _, _, err := r.Model(ctx, active.Fingerprint); err == nil {
			what = describeDifferences(m, ours)
		}
	}
	return fmt.Errorf("registry: model %s does not fit job %q, which runs %s: these differ: %s: %w", file, r.job, job.Meta.Model, what, ErrOtherNetwork)
}

// Pick returns the named readout; empty: the first.
func Pick(m *reservoir.Model, name string) (*readout.Linear, error) {
	if len(m.Readouts) == 0 {
		return nil, errors.New("registry: the model has no readout: train one")
	}
	if name == "" {
		return m.Readouts[0], nil
	}
	var all []string
	for _, h := range m.Readouts {
		if h.Name == name {
			return h, nil
		}
		all = append(all, h.Name)
	}
	return nil, fmt.Errorf("registry: the model has no readout %q, only %q", name, all)
}

// Add is Publish for a caller that knows the job's network: a worker.
func (r *Models) Add(ctx context.Context, m *reservoir.Model, linear *readout.Linear, network, file string, l Lineage) (e Entry, stored bool, err error) {
	e = Entry{Network: network, Readout: linear.Name, Classes: linear.Classes, Model: cleanText(file), Training: m.Training, Lineage: l}
	e.Training.Inputs = nil
	for _, s := range []*string{&e.Training.Dataset, &e.Training.Tool, &e.Training.Alpha} {
		*s = cleanText(*s)
	}
	if e.Fingerprint, err = Fingerprint(m, linear); err != nil {
		return Entry{}, false, err
	}
	if e.SHA256, err = m.Fingerprint(); err != nil {
		return Entry{}, false, fmt.Errorf("registry: %w", err)
	}
	_, _, old, err := r.readModel(ctx, e.Fingerprint)
	switch {
	case err == nil:
		old.Retired, err = r.readRetirement(ctx, e.Fingerprint)
		return old, false, err
	case errors.Is(err, ErrNoEntry):
		if err := r.checkRoom(ctx); err != nil {
			return Entry{}, false, err
		}
	case !errors.Is(err, ErrDamaged):
		return Entry{}, false, err
	case old.Fingerprint != "" && old.SHA256 == e.SHA256: // the first publisher stays
		e.Lineage = old.Lineage
	}
	content, err := m.Encode()
	if err != nil {
		return Entry{}, false, fmt.Errorf("registry: %w", err)
	}
	about, err := e.marshalEntry()
	if err != nil {
		return Entry{}, false, err
	}
	e.Size = uint64(len(content))
	return e, true, r.store.Put(ctx, e.Fingerprint, about, content)
}

// checkRoom refuses more entries than a list can show.
func (r *Models) checkRoom(ctx context.Context) error {
	all, err := r.listFingerprints(ctx)
	if err == nil && len(all) >= MaxEntries {
		err = fmt.Errorf("registry: job %q has %d models, which is the limit: begin a new job", r.job, len(all))
	}
	return err
}

// FindEntry returns the description of an entry.
func (r *Models) FindEntry(ctx context.Context, fingerprint string) (Entry, error) {
	if !hexName.MatchString(fingerprint) {
		return Entry{}, fmt.Errorf("registry: %q is no fingerprint of %d hexadecimal digits: %w", fingerprint, wire.HashDigits, ErrNoEntry)
	}
	o, err := r.store.FindModel(ctx, fingerprint)
	if err != nil {
		return Entry{}, r.lostError(fingerprint, err)
	}
	e, err := parseEntry(fingerprint, o.About)
	if err != nil {
		return Entry{}, fmt.Errorf("registry: entry %s of job %q: %w: %w", fingerprint, r.job, err, ErrDamaged)
	}
	e.Size = o.Size
	e.Retired, err = r.readRetirement(ctx, fingerprint)
	return e, err
}

// lostError reports an unreadable object.
func (r *Models) lostError(fingerprint string, err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("registry: job %q, fingerprint %s: %w", r.job, fingerprint, ErrNoEntry)
	}
	if store.LostSnapshot(err) || errors.Is(err, jetstream.ErrBadObjectMeta) {
		return fmt.Errorf("registry: entry %s of job %q is incomplete or damaged: %w: %w", fingerprint, r.job, err, ErrDamaged)
	}
	return err
}

// Model reads the model and the readout with this fingerprint, and checks the match with
// the job's states. Retired entries are read, too.
func (r *Models) Model(ctx context.Context, fingerprint string) (*reservoir.Model, *readout.Linear, Entry, error) {
	fail := func(err error) (*reservoir.Model, *readout.Linear, Entry, error) { return nil, nil, Entry{}, err }
	if !hexName.MatchString(fingerprint) {
		return fail(fmt.Errorf("registry: %q is no fingerprint of %d hexadecimal digits: %w", fingerprint, wire.HashDigits, ErrNoEntry))
	}
	m, linear, e, err := r.readModel(ctx, fingerprint)
	if err != nil {
		return fail(err)
	}
	job, _, err := store.ReadEntry(ctx, r.out, r.job)
	if err != nil {
		return fail(err)
	}
	network, err := networkOf(m, job.Arithmetic)
	if err != nil {
		return fail(err)
	}
	if job.Network != "" && network != job.Network {
		return fail(fmt.Errorf("registry: entry %s is of another network than job %q: %w", fingerprint, r.job, ErrOtherNetwork))
	}
	e.Retired, err = r.readRetirement(ctx, fingerprint)
	return m, linear, e, err
}

// readModel reads an entry and checks everything except the network. If only the
// content is damaged, it returns the description with the error.
func (r *Models) readModel(ctx context.Context, fingerprint string) (*reservoir.Model, *readout.Linear, Entry, error) {
	b, o, err := r.store.Get(ctx, fingerprint)
	if err != nil {
		err = r.lostError(fingerprint, err)
		if errors.Is(err, ErrDamaged) {
			e, _ := r.FindEntry(ctx, fingerprint)
			return nil, nil, e, err
		}
		return nil, nil, Entry{}, err
	}
	e, err := parseEntry(fingerprint, o.About)
	damaged := func(err error) (*reservoir.Model, *readout.Linear, Entry, error) {
		return nil, nil, e, fmt.Errorf("registry: entry %s of job %q: %w: %w", fingerprint, r.job, err, ErrDamaged)
	}
	if err != nil {
		return damaged(err)
	}
	e.Size = o.Size
	m, err := reservoir.Decode(b)
	if err != nil {
		return damaged(err)
	}
	linear, err := Pick(m, e.Readout)
	if err != nil {
		return damaged(err)
	}
	print, err := Fingerprint(m, linear)
	sum, wrong := m.Fingerprint()
	if err = errors.Join(err, wrong); err == nil && (print != fingerprint || sum != e.SHA256) {
		err = fmt.Errorf("its content has the fingerprint %s and a sha256 that begins with %.12s", print, sum)
	}
	if err != nil {
		return damaged(err)
	}
	return m, linear, e, nil
}

// List is all entries, the first published first.
func (r *Models) List(ctx context.Context) ([]Entry, error) {
	all, err := r.listFingerprints(ctx)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, print := range all {
		e, err := r.FindEntry(ctx, print)
		switch {
		case errors.Is(err, ErrNoEntry): // deleted, with a marker
			continue
		case errors.Is(err, ErrDamaged):
			e = Entry{Fingerprint: print, Damage: err.Error()}
		case err != nil:
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.When.Compare(b.When) })
	return entries, nil
}

func (r *Models) listFingerprints(ctx context.Context) ([]string, error) {
	all, err := r.store.Names(ctx)
	return slices.DeleteFunc(all, func(name string) bool { return !hexName.MatchString(name) }), err
}

// Resolve finds the fingerprint with these first digits.
func (r *Models) Resolve(ctx context.Context, prefix string) (string, error) {
	all, err := r.listFingerprints(ctx)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(print string) bool { return !strings.HasPrefix(print, strings.ToLower(prefix)) })
	switch {
	case prefix == "" || len(all) == 0:
		return "", fmt.Errorf("registry: job %q, fingerprint %q: %w", r.job, prefix, ErrNoEntry)
	case len(all) > 1:
		return "", fmt.Errorf("registry: %d models of job %q have fingerprints that begin with %s: give more digits", len(all), r.job, prefix)
	}
	return all[0], nil
}

// Active returns the entry for new sequences: the last promoted, or the job's first,
// according to the job's entry.
func (r *Models) Active(ctx context.Context) (Entry, error) {
	job, _, err := store.ReadEntry(ctx, r.out, r.job)
	if err != nil {
		return Entry{}, err
	}
	if promoted := job.Promotions.Last().Readout; promoted != "" {
		return r.FindEntry(ctx, promoted)
	}
	return r.Find(ctx, job.Readout, job.Input)
}

// Find returns the entry with this Identity for an input format.
func (r *Models) Find(ctx context.Context, identity, input string) (Entry, error) {
	all, err := r.listFingerprints(ctx)
	if err != nil {
		return Entry{}, err
	}
	for _, print := range all {
		if Identity(print, input) == identity {
			return r.FindEntry(ctx, print)
		}
	}
	return Entry{}, fmt.Errorf("registry: job %q, readout %s: %w", r.job, identity, ErrNoEntry)
}
