package reservoir

import (
	"math"
	"strings"
	"testing"
)

func TestSpecRefusals(t *testing.T) {
	good := paperSpec(10, 2, .1, .01, 1)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Spec){
		"arithmetic version": func(s *Spec) { s.Arithmetic = 2 }, "kind": func(s *Spec) { s.Kind = "lstm" },
		"channels": func(s *Spec) { s.Channels = 0 }, "members": func(s *Spec) { s.Members = -1 }, "units": func(s *Spec) { s.Units = 1 << 20 },
		"weights, want at most": func(s *Spec) { s.Units, s.Members = 8192, 4096 }, "precision": func(s *Spec) { s.Precision = "bf16" },
		"no features": func(s *Spec) { s.Features = nil }, "given twice": func(s *Spec) { s.Features = []Feature{Last, Last} },
		"feature \"median\"": func(s *Spec) { s.Features = []Feature{"median"} }, "eps": func(s *Spec) { s.Eps = Dist{} },
		"gamma": func(s *Spec) { s.Gamma = Fixed(math.NaN()) }, "not both": func(s *Spec) { s.EpsRho = Fixed(.1) },
		"not a parameter": func(s *Spec) { s.Leak = Fixed(.1) }, "lo <= hi": func(s *Spec) { s.Input = Dist{2, 1} },
		"positive values": func(s *Spec) { s.Bias = Dist{0, 1} }, "at most": func(s *Spec) { s.Input = Fixed(1e9) },
	} {
		s := good
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
