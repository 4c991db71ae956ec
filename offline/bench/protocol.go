package bench

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Protocol says how a model is chosen, fitted and asked.
type Protocol string

// The protocols; the package comment describes them.
const (
	PaperExact Protocol = "paper-exact"
	Best       Protocol = "best"
	Bank       Protocol = "bank"
)

// Protocols lists all of them.
var Protocols = []Protocol{PaperExact, Best, Bank}

// BankModel is the model of protocol Bank.
const BankModel = "bank"

// PaperModels are the models of the other protocols, in the paper's order.
var PaperModels = []string{string(reservoir.EuSN), string(reservoir.ESN), string(reservoir.RESN)}

// DefaultSettings are those of the paper.
func DefaultSettings(p Protocol) Settings {
	s := Settings{Protocol: p, Configurations: MaxConfigurations, Draws: 10, Seed: offline.DefaultSeed, Arithmetic: reservoir.Arithmetic, Format: format}
	if p == Bank {
		s.Configurations = 0
	}
	return s
}

// Validate reports what is wrong with the settings.
func (s Settings) Validate() error {
	switch {
	case !slices.Contains(Protocols, s.Protocol):
		return fmt.Errorf("bench: protocol %q, want one of %q", s.Protocol, Protocols)
	case s.Protocol == Bank && s.Configurations != 0:
		return fmt.Errorf("bench: protocol %s searches nothing, want 0 configurations and not %d", s.Protocol, s.Configurations)
	case s.Protocol != Bank && (s.Configurations < 1 || s.Configurations > MaxConfigurations):
		return fmt.Errorf("bench: %d configurations, want 1 to %d, the length of the paper's list", s.Configurations, MaxConfigurations)
	case s.Draws < 1 || s.Draws > maxDraws:
		return fmt.Errorf("bench: %d draws, want 1 to %d", s.Draws, maxDraws)
	}
	return nil
}

const maxDraws = 1000

// Seeds of the weights: configuration i of a search is drawn with Seed + i,
// draw i of the chosen one with Seed + drawSeeds + i, and draw i of the bank
// with Seed + i, so that the bank's first draw is the one retrain makes.
const drawSeeds = 10_000

func (s Settings) trialSeed(i int) uint64 { return s.Seed + uint64(i) }
func (s Settings) drawSeed(i int) uint64  { return s.Seed + drawSeeds + uint64(i) }

// search is the assessment of a configuration, final that of the chosen one.
func (s Settings) search(p *problem) assessment {
	return s.assessment(p.fit, p.validation)
}

func (s Settings) final(p *problem) assessment {
	if s.Protocol == PaperExact {
		return s.assessment(p.fit, p.test)
	}
	return s.assessment(p.train, p.test)
}

func (s Settings) assessment(learn, ask []int) assessment {
	if s.Protocol == PaperExact {
		return assessment{learn: learn, ask: ask, alphas: []float64{1}}
	}
	return assessment{learn: learn, ask: ask, alphas: readout.DefaultAlphas(), standardise: true}
}
