package reservoir

import (
	"math"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// TestNetworkRefusals makes one error at a time in an accepted network, at the
// largest allowed numbers.
func TestNetworkRefusals(t *testing.T) {
	fresh := func() *Network {
		s := paperSpec(4, 3, .1, .01, 1)
		s.Members = 2
		n := mustDraw(t, s)
		n.Norm.Mean[1], n.Norm.Scale[1], n.Norm.Diff[1] = -MaxInput, maxScale, -maxScale
		m := &n.Members[1]
		m.Recurrent[5], m.Input[2], m.Bias[3] = -maxWeight, maxWeight, maxWeight
		return n
	}
	if err := fresh().Validate(); err != nil {
		t.Fatal(err)
	}
	above := func(limit float32) float32 { return math.Nextafter32(limit, math.MaxFloat32) }
	nan := float32(math.NaN())
	for says, spoil := range map[string]func(*Network){
		"spec: units":                func(n *Network) { n.Spec.Units = 0 },
		"mean[1] is":                 func(n *Network) { n.Norm.Mean[1] = -above(MaxInput) },
		"scale[1] is":                func(n *Network) { n.Norm.Scale[1] = above(largestScale) },
		"diff[1] is":                 func(n *Network) { n.Norm.Diff[1] = nan },
		"scale has 4 values":         func(n *Network) { n.Norm.Scale = append(n.Norm.Scale, 1) },
		"diff has 2 values":          func(n *Network) { n.Norm.Diff = n.Norm.Diff[1:] },
		"3 members, want 2":          func(n *Network) { n.Members = append(n.Members, n.Members[0]) },
		"indices below 3":            func(n *Network) { n.Members[1].Inputs[2] = 3 },
		"[-1 1 2], want ascending":   func(n *Network) { n.Members[1].Inputs[0] = -1 },
		"[0 0 2], want ascending":    func(n *Network) { n.Members[1].Inputs[1] = 0 },
		"member 1: inputs: none":     func(n *Network) { n.Members[1].Inputs, n.Members[1].Input = nil, nil },
		"member 1: recurrent[5]":     func(n *Network) { n.Members[1].Recurrent[5] = above(maxWeight) },
		"recurrent has 4 values":     func(n *Network) { n.Members[1].Recurrent = n.Members[1].Recurrent[:4] },
		"member 1: input[2]":         func(n *Network) { n.Members[1].Input[2] = -above(maxWeight) },
		"input has 12 values":        func(n *Network) { n.Members[1].Inputs = []int32{0, 2} },
		"largest scale of a channel": func(n *Network) { n.Norm.Scale[1] = above(maxScale) },
		"member 1: bias[3]":          func(n *Network) { n.Members[1].Bias[3] = float32(math.Inf(-1)) },
		"keep and gain[0]":           func(n *Network) { n.Members[1].Keep = 1001 },
		"keep and gain[1]":           func(n *Network) { n.Members[1].Gain = nan },
	} {
		n := fresh()
		spoil(n)
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestModelRefusals: a model names its channels, and its readouts fit.
func TestModelRefusals(t *testing.T) {
	for says, spoil := range map[string]func(*Model){
		"want a network, got none":                func(m *Model) { m.Network = nil },
		"want the names of 3 channels, got 2":     func(m *Model) { m.Channels = m.Channels[:2] },
		`readout "state": want names that differ`: func(m *Model) { m.Readouts = append(m.Readouts, m.Readouts[0]) },
		"as the network has, got 7":               func(m *Model) { m.Readouts[0] = emptyReadout(7, "a", "b") },
		"policy":                                  func(m *Model) { m.Policy.Kind = "sometimes" },
		"network: member 1: inputs":               func(m *Model) { m.Network.Members[1].Inputs = nil },
		"want a finite number":                    func(m *Model) { m.Readouts[0].Intercept[1] = float32(math.NaN()) },
	} {
		m := testModel(t)
		spoil(m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func emptyReadout(features int, classes ...string) *readout.Linear {
	h := &readout.Linear{Name: "h", Classes: classes}
	h.Center, h.Weights, h.Intercept = make([]float32, features), make([]float32, h.Columns()*features), make([]float32, h.Columns())
	return h
}
