package shard

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// carrying takes the features of some predictions out of the engine, for a readout that
// is learnt later.
type carrying struct {
	share    float64 // of the predictions; 0 = of none
	features int     // of a prediction
}

// Carried is a prediction of an answer that carries its features.
type Carried struct {
	Pred     int // its index
	features int // where they begin
}

// carriesFeatures reports whether a prediction of a whole sequence, of which readouts are learnt,
// carries its features.
func (c *carrying) carriesFeatures(p *codec.Prediction) bool {
	return c.share > 0 && wire.Carries(p.Stream, p.Seq, p.Row, c.share)
}
