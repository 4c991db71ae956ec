package reservoir

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// paperSpec is the paper's network: one member, fixed scales, last state.
func paperSpec(units, channels int, eps, gamma, recurrent float64) Spec {
	return Spec{Arithmetic: Arithmetic, Kind: EuSN, Channels: channels, Members: 1, Units: units, Seed: 3, Precision: Float32,
		Features: []Feature{Last}, Eps: Fixed(eps), Gamma: Fixed(gamma), Recurrent: Fixed(recurrent), Input: Fixed(1), Bias: Fixed(.5)}
}

func mustDraw(t *testing.T, s Spec) *Network {
	t.Helper()
	net, err := Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// TestAntisymmetryExact: M + gamma*I is antisymmetric to the last bit, in
// every precision and with drawn scales.
func TestAntisymmetryExact(t *testing.T) {
	bank := paperSpec(31, 3, 0, 0, 0)
	bank.Members, bank.Eps, bank.Gamma, bank.Recurrent, bank.EpsRho = 4, Dist{1e-3, 1}, Dist{1e-4, 1e-1}, Dist{}, Dist{1e-2, .2}
	tf := paperSpec(50, 1, .1, .01, 3)
	tf.Precision = TF32
	for _, s := range []Spec{paperSpec(100, 6, .01, .001, 1), bank, tf} {
		for r, m := range mustDraw(t, s).Members {
			n := s.Units
			for i := range n {
				for j := range i {
					if a, b := m.Recurrent[i*n+j], m.Recurrent[j*n+i]; a != -b || a == 0 {
						t.Fatalf("member %d: M[%d][%d] = %x, M[%d][%d] = %x", r, i, j, a, j, i, b)
					}
					if u := math.Float32bits(m.Recurrent[i*n+j]); s.Precision == TF32 && u&(1<<13-1) != 0 {
						t.Fatalf("member %d: %x is not a TF32 number", r, m.Recurrent[i*n+j])
					}
				}
				if m.Recurrent[i*n+i] != m.Recurrent[0] || m.Recurrent[0] >= 0 {
					t.Fatalf("member %d: diagonal %v, want -gamma throughout", r, m.Recurrent[i*n+i])
				}
			}
		}
	}
}

// jacobian is J = I + eps*(Wh - gamma*I), the step's derivative at the origin
// without input and bias.
func jacobian(net *Network) *mat.Dense {
	m, n := net.Members[0], net.Spec.Units
	j := mat.NewDense(n, n, nil)
	for i := range n {
		for k := range n {
			v := float64(m.Gain) * float64(m.Recurrent[i*n+k])
			if i == k {
				v++
			}
			j.Set(i, k, v)
		}
	}
	return j
}

func eigenvalues(t *testing.T, a mat.Matrix) []complex128 {
	t.Helper()
	var e mat.Eigen
	if !e.Factorize(a, mat.EigenNone) {
		t.Fatal("eigenvalues did not converge")
	}
	return e.Values(nil)
}

// TestSpectrum tests Proposition 1 (the eigenvalues of J are 1 - eps*gamma +-
// i*eps*beta, with +-i*beta of Wh) and Corollary 1 (its spectral radius).
func TestSpectrum(t *testing.T) {
	for _, c := range []struct{ eps, gamma, r float64 }{{.01, .001, 1}, {.1, .1, .1}, {1, .01, .01}, {1e-3, 1, 10}} {
		net := mustDraw(t, paperSpec(40, 1, c.eps, c.gamma, c.r))
		// The numbers as stored: rounding to float32 is part of the model.
		eps, gamma := float64(net.Members[0].Gain), -float64(net.Members[0].Recurrent[0])
		n := net.Spec.Units
		wh := mat.NewDense(n, n, nil)
		for i := range n {
			for k := range n {
				if i != k {
					wh.Set(i, k, float64(net.Members[0].Recurrent[i*n+k]))
				}
			}
		}
		var beta []float64
		for _, v := range eigenvalues(t, wh) {
			beta = append(beta, imag(v))
		}
		got := eigenvalues(t, jacobian(net))
		slices.Sort(beta)
		slices.SortFunc(got, func(a, b complex128) int {
			if imag(a) < imag(b) {
				return -1
			}
			return 1
		})
		// The eigenvalue solver works in float64: 1e-12 leaves room for
		// its error growing with n and the norm (at most 2 here).
		radius := 0.0
		for i, v := range got {
			want := complex(1-eps*gamma, eps*beta[i])
			if cmplx.Abs(v-want) > 1e-12 {
				t.Fatalf("eps %g, gamma %g: eigenvalue %v, Proposition 1 says %v", eps, gamma, v, want)
			}
			radius = max(radius, cmplx.Abs(v))
		}
		rho := max(math.Abs(beta[0]), beta[len(beta)-1])
		want := math.Sqrt(1 + eps*eps*gamma*gamma - 2*eps*gamma + eps*eps*rho*rho)
		if math.Abs(radius-want) > 1e-12 {
			t.Fatalf("spectral radius %.15g, Corollary 1 says %.15g", radius, want)
		}
	}
}
