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

// BankModel is the model of protocol Bank: the current default bank. The models of
// protocol Compare are names of reservoir.Banks.
const BankModel = "bank"

// bank is the version of reservoir.DefaultBank and of the readout that offline.Retrain
// fits to a bank's features; results of different versions are not averaged.
const bank = 2

// isBank reports whether a model is a bank, which needs no search.
func isBank(model string) bool {
	return model == BankModel || slices.Contains(reservoir.Banks, model)
}

// bankOptions are the training options of a bank on a data set, except for seeds and
// engines.
func bankOptions(model string, d *archive.Dataset) offline.RetrainOptions {
	spec, err := reservoir.Bank(model, len(d.Channels))
	if err != nil { // BankModel: a plan has been validated
		spec = reservoir.DefaultBank(len(d.Channels))
	}
	return offline.RetrainOptions{Spec: spec}
}

// recipeOf identifies the recipe of a bank: after a change of the recipe, results are
// recomputed, and never averaged with earlier results.
func recipeOf(opt offline.RetrainOptions) string {
	opt.Spec.Seed = 0
	text, _ := json.Marshal(opt.Spec) // numbers and names: cannot fail
	text = fmt.Appendf(text, " alphas %v raw %t ridge %t version %d", opt.Alphas, opt.RawFeatures, opt.RidgeOnly, bank)
	if run, _, clip := opt.Spec.SoftScaling(1); run > 0 {
		text = fmt.Appendf(text, " clip %v", clip)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
