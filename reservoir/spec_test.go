package reservoir

import (
	"math"
	"reflect"
	"slices"
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

// TestSpecDefaults: a recipe with only channels and Input draws a network with
// a complete recipe; given values stay.
func TestSpecDefaults(t *testing.T) {
	for _, kind := range []Kind{"", EuSN, ESN, RESN} {
		net, err := Draw(Spec{Channels: 2, Kind: kind, Input: Fixed(1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := net.Validate(); err != nil {
			t.Error(err)
		}
		paper := Paper(2, PaperOptions{Kind: kind, Input: 1})
		if !reflect.DeepEqual(net.Spec, paper) || paper.Units != defaultUnits || paper.Members != 1 || !slices.Equal(paper.Features, []Feature{Last}) {
			t.Errorf("drawn from %+v, Paper gives %+v", net.Spec, paper)
		}
	}
	for _, s := range []Spec{EulerBank(3), paperSpec(10, 2, .1, 0, 0), {
		Arithmetic: Arithmetic, Kind: ESN, Channels: 1, Members: 2, Units: 3, Precision: TF32, Features: []Feature{Std}, Leak: Fixed(.1),
	}} {
		if got := s.WithDefaults(); !reflect.DeepEqual(got, s) {
			t.Errorf("%+v became %+v", s, got)
		}
	}
}

// TestDrawRefusesForgottenInput: its states would not depend on the samples.
func TestDrawRefusesForgottenInput(t *testing.T) {
	for _, s := range []Spec{{Channels: 1}, Paper(1, PaperOptions{Bias: 1}), {Channels: 1, Kind: ESN, Input: Fixed(0)}} {
		if _, err := Draw(s); err == nil || !strings.Contains(err.Error(), "input: want a positive scale") {
			t.Errorf("%v, want an error that asks for Input", err)
		}
	}
}
