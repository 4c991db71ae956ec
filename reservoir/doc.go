// Package reservoir holds the untrained part: the recipe (Spec), the weights
// drawn from it (Network), the state row of a stream (Layout), the contract
// every engine keeps (Engine) with the plain Go engine that defines the truth
// (Generic), and the model file (Model). It knows no message, file of data or
// training.
//
// # The step
//
// Every reservoir is h' = keep*h + gain*tanh(M h + U x + b); see Kind. A
// network is a bank of Members independent blocks that share the input. In
// canonical arithmetic, for each unit i of each member, in float32:
//
//	z  = b[i]
//	z  = fma(U[i][c], x[c], z)   the inputs c the member sees, ascending
//	z  = fma(M[i][k], h[k], z)   units k ascending; resn: only k = (i-1) mod N
//	v  = canon.Tanh(z)
//	h' = fma(gain, v, keep*h)
//
// Engines may vectorise across units, members and streams, never inside a
// chain, so all of them give the same bits; canon.FMA and canon.Tanh define
// the operations, Layout the accumulators, readout.Linear the scores. A Euler
// state neither forgets nor damps a difference: C. Gallicchio, "Euler State
// Networks: Non-dissipative Reservoir Computing", arXiv 2203.09382.
package reservoir
