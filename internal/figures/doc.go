// Package figures computes and draws the figures of the paper (C. Gallicchio, "Euler
// State Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382): its theory,
// Fig. 1 to 3, computed only from a seed, and the curves of its memorization tasks, Fig.
// 4, from a table of results. Every quantity is a pure number unless a unit is given.
// Arithmetic is float64.
//
// # Fig. 1, phase portraits (phase.go)
//
// Reservoirs of 2 units without input or bias, from three initial states; the step is
// that of package reservoir.
//
// # Fig. 2, effective spectral radius (radius.go)
//
// J = I + eps (Wh - gamma I) is the step's derivative at the origin, Wh = W - W'
// antisymmetric with eigenvalues +-i beta_k, rho = max beta_k. Proposition 1:
//
//	lambda_k(J) = 1 - eps gamma +- i eps beta_k
//
// Corollary 1, with it:
//
//	rho(J) = sqrt(1 + eps^2 gamma^2 - 2 eps gamma + eps^2 rho^2)
//
// rho(J) - 1 goes down to 1e-20 on the paper's grid, so it is computed as
// expm1(log1p(.)/2) of the rest of the sum without the 1. Check compares the eigenvalues
// of LAPACK's algorithm for J itself with both, cell by cell.
//
// # Fig. 3, maximum local Lyapunov exponent (lyapunov.go)
//
// Driven by u(t) uniform in [-.5, .5], with D(t) = diag(1 - tanh^2) of the step from t-1
// to t and J(t) = I + eps D(t) (Wh - gamma I),
//
//	LLE_k = mean over t of ln |lambda_k(J(t))|, |lambda_1| >= |lambda_2| >= ...
//
// in nats per step; the maximum is LLE_1, the minimum LLE_N. Proposition 2:
//
//	ln(1 - eps (rho+gamma)) <= LLE_k <= ln(1 + eps (rho+gamma))
//
// where the lower bound is -Inf if eps (rho+gamma) >= 1. J(t) - I has the eigenvalues eps
// mu_k of eps D^.5 (Wh - gamma I) D^.5, an antisymmetric matrix and a diagonal one, whose
// eigenvalues are computed with small errors; then
//
//	ln |1 + eps mu| = log1p(2 eps Re mu + eps^2 |mu|^2) / 2
//
// keeps digits when ln of an eigenvalue of J(t) would be rounding noise (eps gamma below
// 1e-16). The mean is taken over the middles of strides of Grid.Every steps, and over all
// steps if eps rho >= .1.
//
// # Weights
//
// Weights are those of package reservoir (its generator, rounded to float32, then taken
// as exact): draw d of seed s is the network of one member with seed s + d; input and
// bias scale are 1. The input of draw d comes from math/rand/v2's PCG with seed (s + d,
// 3). Draws and inputs are the same for all cells.
//
// # Same bits
//
// Each draw of each cell is computed by one goroutine, in one order: no result depends on
// the number of threads, and the files contain no date. Other architectures than amd64
// may fuse multiplications and additions and differ in last bits.
//
// # Files
//
//   - grid.go: defines the grid of parameters; computes cells in parallel
//   - weights.go: draws weights and computes eigenvalues
//   - phase.go: computes figure 1, phase portraits
//   - radius.go: computes figure 2, effective spectral radius
//   - lyapunov.go: computes figure 3, Lyapunov exponents
//   - memory.go: reads figure 4, accuracy against length
//   - draw_phase.go: draws figure 1
//   - draw_heat.go: draws figures 2 and 3
//   - draw_memory.go: draws figure 4
//   - picture.go: writes pictures as PNG and SVG
//   - table.go: writes CSV files
package figures
