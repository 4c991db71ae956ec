package offlinecmd

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
)

// Engines with other bits have no part in the paper's results.
func TestOtherBitsHaveNoResults(t *testing.T) {
	for _, kind := range engines.Kinds {
		a := &cli.App{Engine: kind}
		_, err := runBench(t.Context(), a, nil, benchRun{}, nil)
		if said := err != nil && strings.Contains(err.Error(), "canonical arithmetic"); said != (engines.OtherBits(kind) != "") {
			t.Errorf("%s: the paper's experiments say %v", kind, err)
		}
	}
}
