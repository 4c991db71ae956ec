package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// enginesAlone are engines on each core with the stage's work in memory, as a bound of the stage's rate.
type enginesAlone struct {
	engines []reservoir.Engine
	in      []float32
	runs    []reservoir.Run
	scores  [][]float32
}

func newEnginesAlone(m *reservoir.Model, factory pipeline.EngineFactory) (*enginesAlone, error) {
	cores := runtime.GOMAXPROCS(0)
	e := &enginesAlone{}
	for i := range stageAlone {
		e.runs = append(e.runs, reservoir.Run{Slot: int32(i), Reset: true, Emit: true, From: int32(i * stageRows), To: int32((i + 1) * stageRows)})
	}
	e.in = load.Samples(stageAlone*stageRows, len(stageChannels))
	for range cores {
		engine, err := factory(m.Network, stageAlone)
		if err != nil {
			return nil, err
		}
		e.engines = append(e.engines, engine)
		if err := engine.SetReadouts([]*readout.Linear{m.Readouts[0]}); err != nil {
			return nil, err
		}
		e.scores = append(e.scores, make([]float32, stageAlone*engine.ScoreWidth()))
	}
	return e, nil
}

func (e *enginesAlone) closeEngines() {
	for _, engine := range e.engines {
		engine.Close()
	}
}

// measure runs all engines side by side for about d and returns their rows a
// second.
func (e *enginesAlone) measure(d time.Duration) (float64, error) {
	return sideBySide(len(e.engines), func(i int) (float64, error) {
		begin, calls := time.Now(), 0
		for ; calls == 0 || time.Since(begin) < d; calls++ {
			if err := e.engines[i].Advance(e.in, e.runs, e.scores[i]); err != nil {
				return 0, err
			}
		}
		return float64(calls*len(e.runs)*stageRows) / time.Since(begin).Seconds(), nil
	})
}

// stageModel predicts after every message's worth of samples, with a readout of drawn numbers: its predictions are
// meaningless, its cost is real. recipe is a bank's name; empty: one network. rows is the number of rows of a
// message.
func stageModel(recipe string, rows int) (*reservoir.Model, error) {
	shape := benchShape{units: stageUnits, inputs: len(stageChannels)}
	if recipe != "" {
		shape = benchShape{recipe: recipe, inputs: 2 * len(stageChannels)} // half of the inputs are differences
	}
	net, err := shape.draw()
	if err != nil {
		return nil, err
	}
	n := net.Spec.FeatureCount()
	rng := rand.New(rand.NewPCG(2, 3))
	h := &readout.Linear{Name: "bench", Center: make([]float32, n), Weights: make([]float32, n*stageClasses), Intercept: make([]float32, stageClasses)}
	for i := range h.Weights {
		h.Weights[i] = float32(rng.NormFloat64())
	}
	for c := range stageClasses {
		h.Classes = append(h.Classes, fmt.Sprint(c))
	}
	m := &reservoir.Model{
		Network: net, Readouts: []*readout.Linear{h}, Channels: stageChannels,
		Policy: reservoir.Policy{Kind: reservoir.Count, Length: rows},
	}
	return m, m.Validate()
}
