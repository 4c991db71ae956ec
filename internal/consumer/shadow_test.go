package consumer

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// A reader receives each prediction of a shadow once, by its number, and counts missing
// predictions; a new job has separate numbers.
func TestShadowNumbers(t *testing.T) {
	r := shadowReader{read: map[numbered]uint64{}}
	for _, c := range []struct {
		begun, shadow string
		part          int
		outs          uint64
		n             int    // predictions in the message
		left          int    // remaining predictions
		missing       uint64 // predictions missing before the message
	}{
		{"x", "a", 0, 10, 4, 4, 0}, // beginning of the NATS stream
		{"x", "a", 0, 10, 4, 0, 0}, // repeated
		{"x", "a", 0, 9, 1, 0, 0},  // cut elsewhere
		{"x", "a", 0, 12, 5, 2, 0}, // partly repeated
		{"x", "a", 0, 20, 5, 5, 3},
		{"x", "b", 0, 3, 3, 3, 0},
		{"x", "a", 1, 3, 3, 3, 0},
		{"y", "a", 0, 2, 2, 2, 0},
		{"x", "a", 0, 21, 1, 1, 0},
	} {
		o := ShadowOutput{Shadow: c.shadow, Begun: c.begun, Partition: c.part, Outs: c.outs}
		for i := range c.n {
			o.Predictions = append(o.Predictions, codec.Prediction{Details: &codec.Details{Input: c.outs - uint64(c.n-1-i)}})
		}
		fresh := r.isFresh(&o)
		if !fresh {
			o.Predictions = nil
		}
		if fresh != (c.left > 0) || len(o.Predictions) != c.left || o.Missing != c.missing || fresh && o.Predictions[len(o.Predictions)-1].Details.Input != c.outs {
			t.Errorf("%+v: %d left, %d missing", c, len(o.Predictions), o.Missing)
		}
	}
}
