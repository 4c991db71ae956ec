// Package readout turns a feature vector into class scores, and scores into an answer.
//
// A readout (Linear) computes
//
//	scores = Intercept + Weights (features - Center)
//
// with each difference limited to [-Limit, Limit] where the readout has limits,
// in float32 with a fixed order of operations, so that every engine and every
// program gets the same bits. The class is the largest score; with two
// classes there is one score and its sign decides.
//
// A readout may have a temperature: with this scale the scores are log-likelihoods, and
// Linear.Probability computes probabilities from them, for samples like those that it was
// fitted to.
//
// The package does not know reservoirs, file formats or streams, and it fits nothing: package
// internal/fit does. Limits are also applied on vectors in reservoir/cpu/vector_emit.go and on
// GPUs in gpu/internal/kernels/scores.h.
//
// # Files
//
//   - linear.go: defines a readout and computes scores
//   - answer.go: computes an answer from scores (package outcome)
//   - coverage.go: defines thresholds of sets, and intervals
//   - abstain.go: defines the threshold of answers
//   - early.go: computes the probability that the class of a prefix changes
//   - prefix.go: selects the readout of unfinished sequences
package readout
