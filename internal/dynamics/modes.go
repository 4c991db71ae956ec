package dynamics

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MostUnits is the largest member supported by ComputeModes: larger members would take
// minutes.
const MostUnits = 512

// Modes are the modes of all members of a network, near a state of zero.
type Modes struct {
	Count  int     `json:"count"`            // the number of units
	Radius float64 `json:"effective_radius"` // the largest modulus
	Held   int     `json:"held"`             // modes with a modulus of 1 or more, which do not fall
	// Of the remaining modes, half fall to 1/e within Half samples, and nine of ten
	// within Most. Samples are the network's samples, after a front end. Both are 0 if
	// every mode is held.
	Half float64 `json:"half_samples"`
	Most float64 `json:"nine_of_ten_samples"`
}

// ComputeModes computes a network's modes. It returns an error if a member is too large.
func ComputeModes(net *reservoir.Network) (Modes, error) {
	if n := net.Spec.Units; n > MostUnits {
		return Modes{}, fmt.Errorf("dynamics: members of %d units, want at most %d", n, MostUnits)
	}
	var all []float64
	for r := range net.Members {
		moduli, err := memberModuli(&net.Members[r], net.Spec.Units, net.Spec.Kind)
		if err != nil {
			return Modes{}, fmt.Errorf("dynamics: member %d: %w", r, err)
		}
		all = append(all, moduli...)
	}
	slices.Sort(all)
	m := Modes{Count: len(all), Radius: all[len(all)-1]}
	falling, _ := slices.BinarySearch(all, 1)
	if m.Held = len(all) - falling; falling > 0 {
		m.Half, m.Most = samplesToFall(all[(falling-1)/2]), samplesToFall(all[(falling-1)*9/10])
	}
	return m, nil
}

// samplesToFall returns the number of samples after which a mode has fallen to 1/e.
func samplesToFall(modulus float64) float64 {
	if modulus == 0 {
		return 0
	}
	return -1 / math.Log(modulus)
}

// memberModuli returns the moduli of a member's modes.
func memberModuli(m *reservoir.Member, n int, kind reservoir.Kind) ([]float64, error) {
	keep, gain := float64(m.Keep), float64(m.Gain)
	moduli := make([]float64, 0, n)
	if len(m.Lags) > 0 { // its units are not connected
		for _, w := range m.Recurrent {
			moduli = append(moduli, math.Abs(keep+gain*float64(w)))
		}
		return moduli, nil
	}
	j := mat.NewDense(n, n, nil)
	for i := range n {
		if kind == reservoir.RESN {
			j.Set(i, (i+n-1)%n, gain*float64(m.Recurrent[i]))
		} else {
			for k := range n {
				j.Set(i, k, gain*float64(m.Recurrent[i*n+k]))
			}
		}
		j.Set(i, i, j.At(i, i)+keep)
	}
	var e mat.Eigen
	if !e.Factorize(j, mat.EigenNone) {
		return nil, fmt.Errorf("the eigenvalues of its step were not found")
	}
	for _, v := range e.Values(nil) {
		moduli = append(moduli, cmplx.Abs(v))
	}
	return moduli, nil
}
