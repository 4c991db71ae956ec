package shard

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// carrying takes the features of some predictions out of the engine, for a readout that
// is learnt later.
type carrying struct {
	share    float64 // of the predictions; 0 = of none
	policy   reservoir.Policy
	features int // of a prediction
}

// Carried is a prediction of an answer that carries its features.
type Carried struct {
	Pred     int // its index
	features int // where they begin
}

// wants reports whether a prediction carries its features: one of those that a readout
// is learnt from, that is of a whole sequence where sequences end.
func (c *carrying) wants(p *codec.Prediction) bool {
	return c.share > 0 && (p.Flags&codec.FlagEarly != 0) == (c.policy.Kind == reservoir.Endless) && wire.Carries(p.Stream, p.Seq, p.Row, c.share)
}
