package paper

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/offline/baseline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Protocol is a way to choose, fit and test a model.
type Protocol string

// The protocols; the package comment describes them.
const (
	PaperExact Protocol = "paper-exact"
	Best       Protocol = "best"
	Bank       Protocol = "bank"
)

// Protocols lists the protocols of the paper's experiments.
var Protocols = []Protocol{PaperExact, Best, Bank}

// Compare is protocol Bank for several banks, by their names: reservoir.Banks.
const Compare Protocol = "compare"

// isFixed reports whether the models are banks, which need no search.
func (p Protocol) isFixed() bool { return p == Bank || p == Compare }

// PaperModels are the models of the other protocols, in the paper's order.
var PaperModels = []string{string(reservoir.EuSN), string(reservoir.ESN), string(reservoir.RESN)}

// DeepESN is the reservoir of the paper's journal version: leaky ESNs in layers, each fed
// with the states of the previous layer; the readout reads all layers. Runs include it
// only by name.
const DeepESN = "deepesn"

// TrainedModels are the models that protocols of the paper train fully, by gradient
// descent. Runs include them only by name.
var TrainedModels = []string{string(baseline.RNN), string(baseline.ARNN), string(baseline.GRU)}

// NewSettings returns the settings of this program.
func NewSettings(p Protocol, seed uint64) Settings {
	s := Settings{Protocol: p, Seed: seed, Arithmetic: reservoir.Arithmetic, Format: format}
	if p == Bank {
		s.Bank = bank
	}
	return s
}

// configurations returns the search list of a reservoir.
func (s Settings) configurations(model string) []Scales {
	return Configurations(model, cmp.Or(s.ListLength, MaxConfigurations))
}

// Plan is the amount of work.
type Plan struct {
	Models         []string // of PaperModels, DeepESN and TrainedModels; for protocol Bank its only model, for Compare banks
	Configurations int      // length of the prefix of the paper's list; 0 for protocols Bank and Compare
	Draws          int      // of the weights of the chosen configuration

	// Of TrainedModels only.
	Epochs int           // most epochs in a training
	Budget time.Duration // of one model's search on one data set; 0 for no limit
}

// The paper's training.
const (
	PaperEpochs = 5000
	PaperBudget = 10 * time.Hour
)

// PaperPlan is the plan of the paper.
func PaperPlan() Plan {
	return Plan{PaperModels, MaxConfigurations, 10, PaperEpochs, PaperBudget}
}

// Validate reports the errors of a plan under these settings.
func (p Plan) Validate(s Settings) error {
	protocol := s.Protocol
	known, least, most := slices.Concat(PaperModels, []string{DeepESN}, TrainedModels), 1, cmp.Or(s.ListLength, MaxConfigurations)
	switch protocol {
	case PaperExact, Best:
		if s.ListLength < 0 || s.ListLength > MaxConfigurations {
			return fmt.Errorf("bench: search lists of %d configurations, want 1 to %d", s.ListLength, MaxConfigurations)
		}
		if !(s.LeastRate >= 0) {
			return fmt.Errorf("bench: least learning rate %g, want 0 or more", s.LeastRate)
		}
		for _, m := range TrainedModels {
			if slices.Contains(p.Models, m) {
				most = min(most, len(s.trainables(m)))
			}
		}
		if most == 0 {
			return fmt.Errorf("bench: no configuration has a learning rate of %g or more", s.LeastRate)
		}
	case Bank:
		known, least, most = []string{BankModel}, 0, 0
	case Compare:
		known, least, most = reservoir.Banks, 0, 0
	default:
		return fmt.Errorf("bench: protocol %q, want one of %q", protocol, Protocols)
	}
	return p.validateFor(protocol, known, least, most)
}

// validateFor compares a plan with the available models and configurations.
func (p Plan) validateFor(protocol Protocol, known []string, least, most int) error {
	if p.Configurations < least || p.Configurations > most {
		return fmt.Errorf("bench: %d configurations by protocol %s, want %d to %d", p.Configurations, protocol, least, most)
	}
	if p.Draws < 1 || p.Draws > maxDraws {
		return fmt.Errorf("bench: %d draws, want 1 to %d", p.Draws, maxDraws)
	}
	if len(p.Models) == 0 {
		return fmt.Errorf("bench: no models, want at least one of %q", known)
	}
	for i, m := range p.Models {
		if !slices.Contains(known, m) {
			return fmt.Errorf("bench: model %q by protocol %s, want some of %q", m, protocol, known)
		}
		if slices.Contains(p.Models[:i], m) {
			return fmt.Errorf("bench: model %q is listed twice", m)
		}
		if isTrained(m) && (p.Epochs < 1 || p.Epochs > PaperEpochs || p.Budget < 0) {
			return fmt.Errorf("bench: model %q: %d epochs and a budget of %v, want 1 to %d and no less than 0", m, p.Epochs, p.Budget, PaperEpochs)
		}
	}
	return nil
}

const maxDraws = 1000

// drawSeeds separates the seeds of the draws from those of the search.
const drawSeeds = 10_000

func (s Settings) trialSeed(i int) uint64 { return s.Seed + uint64(i) }
func (s Settings) drawSeed(i int) uint64  { return s.Seed + drawSeeds + uint64(i) }

func isTrained(model string) bool { return slices.Contains(TrainedModels, model) }
