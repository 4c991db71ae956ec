package reservoir_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/enginetest"
)

// TestVector holds every vector engine this machine can run to the conformance
// suite, on one thread and on several.
func TestVector(t *testing.T) {
	for _, kind := range []string{"avx512", "avx2"} {
		t.Run(kind, func(t *testing.T) {
			if !slices.Contains(reservoir.CPUKinds(), kind) {
				if strings.Contains(os.Getenv("EUSN_REQUIRE"), kind) {
					t.Fatalf("this machine or build has no %s, and EUSN_REQUIRE names it", kind)
				}
				t.Skipf("NOT TESTED: this machine or build has no %s", kind)
			}
			for name, threads := range map[string]int{"1 thread": 1, "3 threads": 3} {
				t.Run(name, func(t *testing.T) {
					enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
						return reservoir.NewCPU(net, slots, kind, threads)
					})
				})
			}
			// The suite's few streams would not reach every kernel.
			for _, shape := range []string{"single", "narrow", "wide"} {
				t.Run(shape, func(t *testing.T) {
					enginetest.Run(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
						e, err := reservoir.NewCPU(net, slots, kind, 1)
						if err != nil {
							return nil, err
						}
						return reservoir.ForceShape(e, shape), nil
					})
				})
			}
		})
	}
}
