package shard

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// carrying reads the features of some predictions from the engine, for training a
// readout later.
type carrying struct {
	share    float64 // of the predictions; 0 = of none
	features int     // of a prediction
}

// Carried is a prediction of an answer with features.
type Carried struct {
	Pred     int // index of the prediction
	features int // index of the first feature
}

// carriesFeatures reports whether a prediction of a whole sequence, usable for
// training, carries its features.
func (c *carrying) carriesFeatures(p *codec.Prediction) bool {
	return c.share > 0 && wire.Carries(p.Stream, p.Seq, p.Row, c.share)
}
