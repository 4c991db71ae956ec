package owner

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// carrying publishes the predictions with features, before the commits of the same
// predictions, so a committed prediction of the share is already stored. It belongs to
// an emitter.
type carrying struct {
	out      *store.Features // nil: none do
	enc      *codec.PredictionEncoder
	features int // of a prediction
	rows     []codec.Prediction
	details  []codec.Details // of rows
}

// SetFeatures sets the destination of predictions with n features. Call SetFeatures
// before the emitter runs.
func (e *Emitter) SetFeatures(out *store.Features, n int) error {
	meta := e.shadows.meta
	meta.First, meta.Features = e.shadows.first, n
	enc, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	e.carries = carrying{out: out, enc: enc, features: n}
	return nil
}

// publishFeatures sends the carried predictions among the predictions [from, to) of an
// answer; prediction from has the number after outs.
func (c *carrying) publishFeatures(ctx context.Context, a *shard.Answer, from, to int, outs uint64) error {
	if c.out == nil || len(a.Carried) == 0 {
		return nil
	}
	c.rows, c.details = c.rows[:0], c.details[:0]
	for _, one := range a.Carried {
		if i := one.Pred; i >= from && i < to {
			c.rows = append(c.rows, a.Preds[i])
			c.details = append(c.details, codec.Details{
				Number: outs + 1 + uint64(i-from), Samples: a.Length[i], Began: a.Began[i], Input: a.At[i], Stored: a.Stored[i],
				Features: a.FeaturesOf(one, c.features),
			})
		}
	}
	if len(c.rows) == 0 {
		return nil
	}
	for i := range c.rows {
		c.rows[i].Details = &c.details[i]
	}
	return c.sendFeatures(ctx, ownerOf(a.Part), a.Part.State.ID, c.rows)
}

// sendFeatures publishes rows in as many messages as the server's limit asks for.
func (c *carrying) sendFeatures(ctx context.Context, t *Ownership, part int, rows []codec.Prediction) error {
	most := max(1, c.out.Limit/(4*c.features)) // more do not fit
	for len(rows) > most {
		if err := c.sendFeatures(ctx, t, part, rows[:most]); err != nil {
			return err
		}
		rows = rows[most:]
	}
	body, err := c.enc.Encode(rows)
	switch half := len(rows) / 2; {
	case err != nil:
		return fmt.Errorf("pipeline: predictions with their features: %w", err)
	case len(body) <= c.out.Limit:
		return c.out.Publish(ctx, part, append([]byte(nil), body...), t)
	case half > 0:
		if err := c.sendFeatures(ctx, t, part, rows[:half]); err != nil {
			return err
		}
		return c.sendFeatures(ctx, t, part, rows[half:])
	}
	return fmt.Errorf("pipeline: a prediction with its %d features has %d bytes, but the server accepts messages of at most %d: raise its max_payload, or set output.features_one_in to 0", c.features, len(body), c.out.Limit)
}
