// Package enginetest is the conformance suite every engine must pass, bit for
// bit: against a plain reference computed here, and against golden values made
// by independent programs (golden.py, golden_mixed.py).
package enginetest

import (
	"math"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// New makes the engine under test.
type New func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// Run runs the whole suite.
func Run(t *testing.T, open New) {
	Results(t, open, math.MaxInt)
	t.Run("NoAllocation", func(t *testing.T) { NoAllocation(t, open) })
}

// Results is the suite without NoAllocation, for an engine whose device is
// simulated, which allocates and may be slow: Shapes has no network with more units.
func Results(t *testing.T, open New, units int) {
	for _, check := range []struct {
		name string
		run  func(*testing.T, New)
	}{
		{"Golden", golden}, // golden.go
		{"Shapes", func(t *testing.T, open New) { shapes(t, open, units) }}, // shapes.go
		{"BatchComposition", batchComposition},                              // calls.go
		{"LongRun", longRun},
		{"Folds", folds},
		{"Roundings", roundings},
		{"LongestSequence", longestSequence},
		{"Refusals", refusals},
		{"States", states}, // state.go
		{"Readouts", readouts},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, open) })
	}
}
