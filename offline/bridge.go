package offline

import (
	"context"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func init() {
	bridge.Update = func(ctx context.Context, m *reservoir.Model, k bridge.Sequences, options any, progress archive.Progress) (*reservoir.Model, any, error) {
		return update(ctx, m, k, options.(RetrainOptions), progress)
	}
	bridge.CountGroups = countDataGroups
	bridge.Adapt = func(evaluation any, m *reservoir.Model, rate float64, late int) (bridge.Adapted, error) {
		return evaluation.(*Evaluation).adapt(m, rate, late)
	}
}
