// Package enginetest is the conformance suite that every engine must pass, bit for bit:
// against a plain reference in this package, and against golden values of independent
// programs (golden.py, golden_mixed.py).
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

// Results is the suite without NoAllocation, for an engine on a simulated device, which
// allocates and may be slow: Shapes has no network with more than units units, and with
// such a limit BatchComposition has fewer samples.
func Results(t *testing.T, open New, units int) {
	length := 45
	if units < math.MaxInt {
		length = 18
	}
	for _, check := range []struct {
		name string
		run  func(*testing.T, New)
	}{
		{"Golden", func(t *testing.T, open New) { goldenCases(t, open, goldenFile, math.MaxInt) }}, // golden.go
		{"Shapes", func(t *testing.T, open New) { testShapes(t, open, units) }},                    // shapes.go
		{"BatchComposition", func(t *testing.T, open New) { // calls.go
			testComposition(t, open, length, bankSpec(2, 3, 10), singleSpec(reservoir.EuSN, 3, 37), singleSpec(reservoir.RESN, 1, 12))
		}},
		{"LongRun", longRun},
		{"Folds", testFolds},
		{"Roundings", testRoundings},
		{"LongestSequence", longestSequence},
		{"Refusals", testRefusals},
		{"States", testStates}, // state.go
		{"Readouts", testReadouts},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, open) })
	}
}
