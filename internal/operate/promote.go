package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// Promotion is a promotion of a job: from then on, a readout answers.
type Promotion = wire.Promotion

// Promotions are the active readouts of a job.
type Promotions struct {
	Job        string              `json:"job"`
	Promotions []Promotion         `json:"promotions"` // the newest promotions; the last is active
	Partitions []PartitionReadouts `json:"partitions"`
}

// PartitionReadouts is a partition's progress with the promotions of its job.
type PartitionReadouts struct {
	Partition int    `json:"partition"`
	Number    uint64 `json:"number"`  // of the newest promotion that the partition has used; 0 = none
	Input     uint64 `json:"input"`   // the input message of the promotion
	Readout   string `json:"readout"` // active since then; empty = the job's first readout
	Worker    string `json:"worker"`  // the current or last owner
}

// Newest returns the active promotion, with number 0 if none is active.
func (p *Promotions) Newest() Promotion { return wire.Promotions(p.Promotions).Last() }

// Complete reports whether every partition has taken the newest promotion.
func (p *Promotions) Complete() bool {
	for _, part := range p.Partitions {
		if part.Number < p.Newest().Number {
			return false
		}
	}
	return true
}

// PromotionsOf returns the active readouts of a job, and the progress of its
// partitions.
func PromotionsOf(ctx context.Context, js jetstream.JetStream, job string) (Promotions, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return Promotions{}, err
	}
	e, _, err := store.ReadEntry(ctx, j.Out, job)
	if err != nil {
		return Promotions{}, err
	}
	all := Promotions{Job: job, Promotions: e.Promotions}
	for p := range j.Partitions {
		r, err := j.Record(ctx, p)
		if err != nil {
			return Promotions{}, err
		}
		now := r.Promoted
		all.Partitions = append(all.Partitions, PartitionReadouts{p, now.Number, now.At, now.Readout, r.Worker})
	}
	return all, nil
}

// PromoteOptions select the readout and the time of activation.
type PromoteOptions struct {
	// Readout is the fingerprint of a readout in the job's registry (package registry).
	// Empty: the readout before the newest promotion.
	Readout string
	// After is the fingerprint of the readout that must be active now; empty: any. If
	// another is active, the error is ErrMeanwhile.
	After string
	Now   bool   // also for the open sequences
	Who   string // the promoting person
}

// Promote activates another readout of the job's registry: in each partition from an
// input message on, for later sequences, or with Now also for open sequences. Promote
// writes the promotion into the job's entry; the partitions' owners then publish the
// promotion into the input, now or at their start. PromotionsOf returns their progress. A
// retired or damaged readout, or a readout with other classes than the job's, is refused.
func Promote(ctx context.Context, js jetstream.JetStream, job string, o PromoteOptions) (Promotion, error) {
	fail := func(err error) (Promotion, error) { return Promotion{}, fmt.Errorf("pipeline: job %q: %w", job, err) }
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return Promotion{}, err
	}
	e, seq, err := store.ReadEntry(ctx, j.Out, job)
	switch {
	case err != nil:
		return Promotion{}, err
	case seq == 0 || e.Readout == "":
		return fail(ErrNotBegun)
	case e.Resize.UnderWay():
		return Promotion{}, underWay(job, e.Resize)
	case o.After != "" && !isActive(&e, o.After):
		return fail(ErrMeanwhile)
	}
	next := Promotion{Now: o.Now, Who: o.Who, When: time.Now().UTC().Truncate(time.Second)}
	if next.Readout, err = chooseReadout(ctx, js, job, o.Readout, &e); err != nil {
		return fail(err)
	}
	if next.Number, err = nextNumber(ctx, j, e.Promotions); err == nil {
		err = next.CheckPromotion()
	}
	if err == nil {
		err = writePromotion(ctx, j, e, seq, next)
	}
	if err != nil {
		return fail(err)
	}
	return next, nil
}

// chooseReadout returns the name for promoting a readout.
func chooseReadout(ctx context.Context, js jetstream.JetStream, job, fingerprint string, e *wire.Entry) (name string, err error) {
	first := false // the job's first readout
	if fingerprint == "" {
		if fingerprint, err = previousReadout(e.Promotions); err != nil {
			return "", err
		}
		first = fingerprint == ""
	}
	if first {
		err = checkFirst(ctx, js, job, e)
	} else {
		name, err = checkPublished(ctx, js, job, fingerprint, e)
	}
	if err == nil && name == e.Promotions.Last().Readout {
		err = ErrActive
	}
	return name, err
}

// writePromotion writes a promotion into the job's entry, of message seq.
func writePromotion(ctx context.Context, j *store.Job, e wire.Entry, seq uint64, next Promotion) error {
	e.Promotions = e.Promotions.AppendPromotion(next)
	endShadowOf(&e, next.Readout)
	_, err := store.WriteEntry(ctx, j.JS, j.Out, &e, j.Name, seq)
	if store.OvertakenBy(err) {
		return ErrMeanwhile
	}
	return err
}

// checkPublished returns the name for promoting a readout of the registry; empty = the
// job's first readout.
func checkPublished(ctx context.Context, js jetstream.JetStream, job, fingerprint string, e *wire.Entry) (string, error) {
	if registry.Identity(fingerprint, e.Input) == e.Readout {
		return "", checkFirst(ctx, js, job, e)
	}
	return fingerprint, checkScores(ctx, js, job, fingerprint, e)
}

// checkFirst refuses a retired first readout. A first readout missing in the registry is
// in the workers' model.
func checkFirst(ctx context.Context, js jetstream.JetStream, job string, e *wire.Entry) error {
	models, err := registry.Open(ctx, js, job)
	if err == nil {
		var first registry.Entry
		if first, err = models.Find(ctx, e.Readout, e.Input); err == nil {
			return first.Usable()
		}
	}
	if errors.Is(err, registry.ErrNone) || errors.Is(err, registry.ErrNoEntry) {
		return nil
	}
	return err
}

// previousReadout returns the readout before the newest promotion.
func previousReadout(all wire.Promotions) (string, error) {
	switch n := len(all); {
	case n > 1:
		return all[n-2].Readout, nil
	case n == 1 && all[0].Number == 1:
		return "", nil
	}
	return "", ErrNoPrevious
}

// nextNumber returns the number of a job's next promotion: more than any number known
// to its partitions, even if the job's entry was lost.
func nextNumber(ctx context.Context, j *store.Job, all wire.Promotions) (uint64, error) {
	number := all.Last().Number
	for p := range j.Partitions {
		r, err := j.Record(ctx, p)
		if err != nil {
			return 0, err
		}
		number = max(number, r.Promoted.Known)
	}
	return number + 1, nil
}

// checkPromotionTaken refuses to change the partitions of a job while some have not
// used the newest promotion: keys of two partitions would have to continue with two
// readouts in one.
func checkPromotionTaken(ctx context.Context, js jetstream.JetStream, job string) error {
	all, err := PromotionsOf(ctx, js, job)
	if err != nil {
		return err
	}
	for _, p := range all.Partitions {
		if n := all.Newest().Number; p.Number < n {
			return fmt.Errorf("pipeline: partition %d of job %q has not taken promotion %d yet: start a worker, wait until it has, stop it, and run the command again", p.Partition, job, n)
		}
	}
	return nil
}
