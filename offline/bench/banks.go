package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BankModel is the model of protocol Bank: whatever bank is the default.
const BankModel = "bank"

// bank is the version of reservoir.DefaultBank and of what offline.Retrain makes
// of a bank's features; results of another are not averaged with this one's.
const bank = 2

// namedBank is a bank and what offline.Retrain is to make of it.
type namedBank struct {
	name    string
	options func(d *offline.Dataset) offline.RetrainOptions
}

// banks is the only place that knows what the name of a bank means, in the order
// of tables. Seeds and engines are set by the run.
var banks = []namedBank{
	{"v1", func(d *offline.Dataset) offline.RetrainOptions {
		return offline.RetrainOptions{Spec: reservoir.DefaultBank(len(d.Channels))}
	}},
}

// BankNames are the models of protocol Compare, in the order of tables.
func BankNames() (names []string) {
	for _, b := range banks {
		names = append(names, b.name)
	}
	return names
}

// isBank reports whether a model is searched for nothing.
func isBank(model string) bool {
	_, named := bankCalled(model)
	return named || model == BankModel
}

func bankCalled(name string) (namedBank, bool) {
	for _, b := range banks {
		if b.name == name {
			return b, true
		}
	}
	return namedBank{}, false
}

// bankOptions are the training options of a bank on a data set; BankModel is
// whatever the default is.
func bankOptions(model string, d *offline.Dataset) offline.RetrainOptions {
	if b, ok := bankCalled(model); ok {
		return b.options(d)
	}
	return offline.RetrainOptions{Spec: reservoir.DefaultBank(len(d.Channels))}
}

// recipeOf tells the recipes of one name apart: results of a recipe that has
// changed since are made again, and never averaged with those of another.
func recipeOf(opt offline.RetrainOptions) string {
	opt.Spec.Seed = 0
	text, _ := json.Marshal(opt.Spec) // numbers and names: cannot fail
	sum := sha256.Sum256(fmt.Appendf(text, " alphas %v raw %t ridge %t version %d", opt.Alphas, opt.RawFeatures, opt.RidgeOnly, bank))
	return hex.EncodeToString(sum[:8])
}
