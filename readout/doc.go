// Package readout computes class scores from a feature vector, and an answer from scores.
//
// A readout (Linear) computes
//
//	scores = Intercept + Weights (features - Center)
//
// with each difference limited to [-Limit, Limit] if the readout has limits, in float32 with a
// fixed order of operations, so that every engine and every program gets the same bits. The
// class is the largest score. A readout of two classes has one score, and the sign decides.
//
// A readout may have a temperature: with this scale the scores are log-likelihoods, and
// Linear.Probability computes probabilities, for samples like the training samples.
//
// A regression may add random features of statistics of the samples to its score
// (RandomFeatures), a readout of classes weights of statistics of segments (SegmentWeights).
//
// The package is independent of reservoirs, file formats and streams, and fits nothing:
// package internal/fit fits readouts. Limits are also applied on vectors in
// reservoir/cpu/vector_emit.go and on GPUs in gpu/internal/kernels/scores.h.
//
// # Files
//
//   - linear.go: defines a readout and computes scores
//   - random.go: computes random features of statistics
//   - segments.go: adds statistics of segments to scores
//   - answer.go: computes an answer from scores (package outcome)
//   - coverage.go: defines thresholds of sets, and intervals
//   - abstain.go: defines the threshold of answers
//   - early.go: computes the probability that the class of a prefix changes
//   - prefix.go: selects the readout of unfinished sequences
package readout
