package paper

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BankModel is the model of protocol Bank: whatever bank is the default. Those of
// protocol Compare are names of reservoir.Banks.
const BankModel = "bank"

// bank is the version of reservoir.DefaultBank and of what offline.Retrain makes
// of a bank's features; results of another are not averaged with this one's.
const bank = 2

// isBank reports whether nothing is searched for a model.
func isBank(model string) bool {
	return model == BankModel || slices.Contains(reservoir.Banks, model)
}

// bankOptions are the training options of a bank on a data set, seeds and engines
// left to the run.
func bankOptions(model string, d *archive.Dataset) offline.RetrainOptions {
	spec, err := reservoir.Bank(model, len(d.Channels))
	if err != nil { // BankModel, for a plan is checked
		spec = reservoir.DefaultBank(len(d.Channels))
	}
	return offline.RetrainOptions{Spec: spec}
}

// recipeOf tells the recipes of one name apart: results of a recipe that has
// changed since are made again, and never averaged with those of another.
func recipeOf(opt offline.RetrainOptions) string {
	opt.Spec.Seed = 0
	text, _ := json.Marshal(opt.Spec) // numbers and names: cannot fail
	text = fmt.Appendf(text, " alphas %v raw %t ridge %t version %d", opt.Alphas, opt.RawFeatures, opt.RidgeOnly, bank)
	if soft := opt.Spec.SoftScaling(1); soft != nil {
		text = fmt.Appendf(text, " clip %v", soft.Clip)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
