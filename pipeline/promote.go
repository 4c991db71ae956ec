package pipeline

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

// The reasons for which a readout is not promoted.
var (
	// ErrActive is a readout that answers already.
	ErrActive = errors.New("this readout answers already")
	// ErrNotBegun is a job that no worker has begun.
	ErrNotBegun = errors.New("no worker of this program has begun the job yet: start one first")
	// ErrPromotedMeanwhile is a job that somebody changed at the same time.
	ErrPromotedMeanwhile = errors.New("somebody else changed the job at the same time: nothing was promoted; look at it, and run the command again")
	// ErrNothingBefore is a rollback where nothing was promoted.
	ErrNothingBefore = errors.New("nothing was promoted that could be taken back")
)

// Promotion is a promotion of a job: from then on, a readout answers.
type Promotion = wire.Promotion

// Promotions is what readouts answer in a job.
type Promotions struct {
	Job        string              `json:"job"`
	Promotions []Promotion         `json:"promotions"` // the newest ones; the last one holds
	Partitions []PartitionReadouts `json:"partitions"`
}

// PartitionReadouts is how far a partition follows the promotions of its job.
type PartitionReadouts struct {
	Partition int    `json:"partition"`
	Number    uint64 `json:"number"`  // of the newest promotion that it has taken; 0 = none
	Input     uint64 `json:"input"`   // the input message that said so
	Readout   string `json:"readout"` // that answers since then; empty = the one that the job began with
	Worker    string `json:"worker"`  // who has, or had, the partition
}

// Newest is the promotion that holds; its number is 0 where there is none.
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

// PromotionsOf reads what readouts answer in a job, and how far its partitions
// are.
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

// Promote has another readout of the job's registry answer from now on: in each
// partition from an input message of its own, for the sequences that begin after
// it, or with now for the open ones, too. It writes the promotion into the job's
// entry; from there the partitions' owners bring it into the input, now or when
// they start. PromotionsOf tells how far they are. fingerprint names the readout
// (package registry); one that is retired or damaged, or has other classes than
// the job's, is refused.
func Promote(ctx context.Context, js jetstream.JetStream, job, fingerprint string, now bool, who string) (Promotion, error) {
	return promote(ctx, js, job, who, func(e *wire.Entry) (Promotion, error) {
		name, err := published(ctx, js, job, fingerprint, e)
		return Promotion{Readout: name, Now: now}, err
	})
}

// PromoteAfter is Promote where a readout answers that somebody has compared with.
// Where another one answers by now, the error is ErrPromotedMeanwhile.
func PromoteAfter(ctx context.Context, js jetstream.JetStream, job, fingerprint, active string, now bool, who string) (Promotion, error) {
	return promote(ctx, js, job, who, func(e *wire.Entry) (Promotion, error) {
		if !answers(e, active) {
			return Promotion{}, ErrPromotedMeanwhile
		}
		name, err := published(ctx, js, job, fingerprint, e)
		return Promotion{Readout: name, Now: now}, err
	})
}

// published is the name under which a readout of the registry may be promoted;
// empty = the one that the job began with.
func published(ctx context.Context, js jetstream.JetStream, job, fingerprint string, e *wire.Entry) (string, error) {
	if registry.Identity(fingerprint, e.Input) == e.Readout {
		return "", firstUsable(ctx, js, job, e)
	}
	return fingerprint, scores(ctx, js, job, fingerprint, e)
}

// firstUsable refuses the readout that the job began with if it was retired. Where
// the registry does not have it, the workers have it from their model.
func firstUsable(ctx context.Context, js jetstream.JetStream, job string, e *wire.Entry) error {
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

// Rollback promotes the readout that answered before the newest promotion.
func Rollback(ctx context.Context, js jetstream.JetStream, job string, now bool, who string) (Promotion, error) {
	return promote(ctx, js, job, who, func(e *wire.Entry) (Promotion, error) {
		before, err := previous(e.Promotions)
		switch {
		case err != nil:
		case before == "":
			err = firstUsable(ctx, js, job, e)
		default:
			before, err = published(ctx, js, job, before, e)
		}
		return Promotion{Readout: before, Now: now}, err
	})
}

// previous is the readout that answered before the newest promotion.
func previous(all wire.Promotions) (string, error) {
	switch n := len(all); {
	case n > 1:
		return all[n-2].Readout, nil
	case n == 1 && all[0].Number == 1:
		return "", nil
	case n == 1:
		return "", errors.New("which readout answered before is not known any more: promote it by its name")
	}
	return "", ErrNothingBefore
}

// promote writes a promotion into the job's entry.
func promote(ctx context.Context, js jetstream.JetStream, job, who string, choose func(e *wire.Entry) (Promotion, error)) (Promotion, error) {
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
		return fail(underWay(e.Resize))
	}
	next, err := choose(&e)
	if err == nil && next.Readout == e.Promotions.Last().Readout {
		err = ErrActive
	}
	if err != nil {
		return fail(err)
	}
	next.Who, next.When = who, time.Now().UTC().Truncate(time.Second)
	if next.Number, err = nextNumber(ctx, j, e.Promotions); err == nil {
		err = next.Check()
	}
	if err != nil {
		return fail(err)
	}
	e.Promotions = e.Promotions.And(next)
	withoutShadow(&e, next.Readout)
	body, err := emptyOf(e.Meta)
	if err != nil {
		return Promotion{}, err
	}
	_, err = writeEntry(ctx, js, &e, job, seq, body)
	now, _, lost := store.ReadEntry(ctx, j.Out, job)
	if last := now.Promotions.Last(); lost == nil && last.Number == next.Number && last.Who == who && last.Readout == next.Readout && last.When.Equal(next.When) { // also where the answer was lost
		return next, nil
	}
	if store.OvertakenBy(err) || err == nil {
		return fail(ErrPromotedMeanwhile)
	}
	return fail(fmt.Errorf("the promotion was not stored: %w", err))
}

// nextNumber is the number of a job's next promotion: more than any that its
// partitions have heard of, also where the job's entry was lost.
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

// promotionTaken refuses to change the partitions of a job whose newest promotion
// some of them have not taken: keys of two partitions would have to continue with
// two readouts in one.
func promotionTaken(ctx context.Context, js jetstream.JetStream, job string) error {
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
