package engine

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestCheckInputs: the largest number is accepted, and the first bad number is named.
func TestCheckInputs(t *testing.T) {
	in := []float32{reservoir.MaxInput, -reservoir.MaxInput, 0, 1, float32(math.NaN()), float32(math.Inf(1))}
	if err := CheckInputs(in[:4], 2); err != nil {
		t.Error(err)
	}
	var bad *reservoir.InputError
	if err := CheckInputs(in, 2); !errors.As(err, &bad) || bad.Sample != 2 || bad.Channel != 0 {
		t.Errorf("%v, want sample 2, channel 0", err)
	}
	if err := CheckInputs([]float32{0, reservoir.MaxInput, -2 * reservoir.MaxInput, 0}, 2); !errors.As(err, &bad) || bad.Sample != 1 || bad.Channel != 0 {
		t.Errorf("%v, want sample 1, channel 0", err)
	}
}

// TestCheckReadouts: each readout that does not fit is named.
func TestCheckReadouts(t *testing.T) {
	net := mustDraw(t, reservoir.Paper(1, reservoir.PaperOptions{Units: 4, Seed: 3, Input: 1}))
	spoiled := emptyReadout(4, "a", "b")
	spoiled.Weights[3] = float32(math.Inf(1))
	width, err := CheckReadouts(net, []*readout.Linear{emptyReadout(4, "a", "b", "c"), emptyReadout(4, "a", "b", "c", "d")})
	if err != nil || width != 7 {
		t.Errorf("width %d, %v, want 7", width, err)
	}
	_, err = CheckReadouts(net, []*readout.Linear{spoiled, emptyReadout(5, "a", "b", "c")})
	for _, says := range []string{"Inf", "want 4 features as the network has, got 5"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error with %q", err, says)
		}
	}
}

func mustDraw(t *testing.T, s reservoir.Spec) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

func emptyReadout(features int, classes ...string) *readout.Linear {
	h := &readout.Linear{Name: "h", Classes: classes}
	h.Center, h.Weights, h.Intercept = make([]float32, features), make([]float32, h.Columns()*features), make([]float32, h.Columns())
	return h
}
