package reservoir

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// smallMixed is a recipe of kind mixed with both kinds of members.
func smallMixed() Spec {
	return Spec{
		Arithmetic: MixedArithmetic, Kind: Mixed, Channels: 3, Members: 16, Units: 16, Seed: 9, Precision: Float32,
		Standardize: true, Difference: true, Subset: 9, Features: slices.Clone(MixedFeatures),
		Gamma: Dist{3e-4, .5}, EpsRho: Dist{1e-2, .3}, Input: Dist{.03, 3}, Bias: Dist{.03, 3},
		Taps: Taps{Members: 8, Count: 3, MaxLag: 5, Activation: Cubic},
	}
}

func mixedModel(t testing.TB) *Model {
	t.Helper()
	net, err := Draw(smallMixed())
	if err != nil {
		t.Fatal(err)
	}
	m := testModel(t)
	m.Network = net
	f := net.Spec.FeatureCount()
	linear := &readout.Linear{Name: "state", Classes: []string{"a", "b"}, Temperature: 1.5, Center: make([]float32, f), Weights: make([]float32, f), Intercept: []float32{1}}
	for i := range linear.Weights {
		linear.Weights[i] = float32(i%7) / 8
	}
	m.Readouts = []*readout.Linear{linear}
	return m
}

func TestMixedSpecRefusals(t *testing.T) {
	if err := smallMixed().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Spec){
		"arithmetic version 1":            func(s *Spec) { s.Arithmetic = 1 },
		"units = 15, want 16":             func(s *Spec) { s.Units = 15 },
		"want multiples of 8":             func(s *Spec) { s.Members = 20 },
		"4 of them with taps":             func(s *Spec) { s.Taps.Members = 4 },
		"taps.members = 24, want 8 to 16": func(s *Spec) { s.Taps.Members = 24 },
		"taps.count = 17, want 1 to 16":   func(s *Spec) { s.Taps.Count = 17 },
		"taps.max_lag is not set":         func(s *Spec) { s.Taps.MaxLag = 0 },
		"taps.max_lag = 257":              func(s *Spec) { s.Taps.MaxLag = 257 },
		`taps.activation "relu"`:          func(s *Spec) { s.Taps.Activation = "relu" },
		"features [last], want":           func(s *Spec) { s.Features = []Feature{Last} },
		"eps is not a parameter of kind":  func(s *Spec) { s.Eps = Fixed(1) },
		"leak is not a parameter":         func(s *Spec) { s.Leak = Fixed(1) },
		"eps_rho = 0..0, want positive":   func(s *Spec) { s.EpsRho = Dist{} },
		"where all members have taps":     func(s *Spec) { s.Members = 8 },
		"bias = 0..0, want positive":      func(s *Spec) { s.Bias = Dist{} },
		"gamma = 2, want at most 1":       func(s *Spec) { s.Gamma = Fixed(2) },
		"taps are not a parameter of":     func(s *Spec) { *s = Spec{Channels: 1, Input: Fixed(1), Taps: s.Taps}.WithDefaults() },
	} {
		s := smallMixed()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestMixedNetworkRefusals(t *testing.T) {
	for want, change := range map[string]func(n *Network){
		"member 0: taps: a lag of 6 samples, want 0 to 5":         func(n *Network) { n.Members[0].Lags[2] = 6 },
		"member 7: taps: a lag of -1":                             func(n *Network) { n.Members[7].Lags[0] = -1 },
		"member 1: taps: 3 inputs and 2 lags, want 3":             func(n *Network) { n.Members[1].Lags = n.Members[1].Lags[:2] },
		"member 8: taps: 1 lags, want none":                       func(n *Network) { n.Members[8].Lags = []int32{0} },
		"member 9: taps: keep 1 and gain 0.5, want 1 and 1":       func(n *Network) { n.Members[9].Gain = .5 },
		"member 2: recurrent has 256 values, want 16":             func(n *Network) { n.Members[2].Recurrent = make([]float32, 256) },
		"member 2: inputs: [0 1 6], want ascending indices below": func(n *Network) { copy(n.Members[2].Inputs, []int32{0, 1, 6}) },
	} {
		n, err := Draw(smallMixed())
		if err != nil {
			t.Fatal(err)
		}
		change(n)
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestMixedForLength(t *testing.T) {
	for median, want := range map[int]int{0: 1, 3: 1, 8: 2, 150: 37, 256: 64, 10000: 64} {
		s := smallMixed()
		s.Taps.MaxLag = 0
		if got := s.ForLength(median).Taps.MaxLag; got != want {
			t.Errorf("median length %d: largest lag %d, want %d", median, got, want)
		}
	}
	if got := smallMixed().ForLength(1000).Taps.MaxLag; got != 5 {
		t.Errorf("a largest lag of 5 became %d", got)
	}
	if s := EulerBank(2); !reflect.DeepEqual(s.ForLength(1000), s) {
		t.Error("another kind was changed")
	}
}

// TestMixedDraw: every tap sees only raw samples or only differences, of at most
// three channels, the first without a lag; half of the units do not see a
// constant.
func TestMixedDraw(t *testing.T) {
	s := smallMixed()
	s.Channels, s.Members, s.Taps.Members, s.Taps.MaxLag = 20, 400, 320, 64
	n, err := Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	differences, centered, lags := 0, 0, map[int32]int{}
	for r, m := range n.Members[:320] {
		seen := map[int32]bool{}
		for _, c := range m.Inputs {
			seen[c] = true
			if c >= 20 != (m.Inputs[0] >= 20) {
				t.Errorf("member %d sees inputs %v", r, m.Inputs)
			}
		}
		if m.Inputs[0] >= 20 {
			differences++
		}
		if len(seen) > 3 || m.Lags[0] != 0 {
			t.Errorf("member %d sees inputs %v at lags %v", r, m.Inputs, m.Lags)
		}
		lags[m.Lags[1]]++
		for i := range 16 {
			sum, size := float32(0), float32(0)
			for _, w := range m.Input[3*i : 3*i+3] {
				sum, size = sum+w, max(size, w, -w)
			}
			if max(sum, -sum) < 1e-5*size {
				centered++
			}
		}
	}
	// Within five deviations of the even odds.
	if differences < 160-45 || differences > 160+45 || centered < 2560-180 || centered > 2560+180 || len(lags) < 60 {
		t.Errorf("of 320 tap members %d see differences, of 5120 units %d are centered, %d lags of 65 are seen", differences, centered, len(lags))
	}
	for r := 321; r < 400; r++ {
		if len(n.Members[r].Inputs) < len(n.Members[r-1].Inputs) {
			t.Errorf("recurrent member %d sees fewer inputs than the one before", r)
		}
	}
}
