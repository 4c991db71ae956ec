// Package explain explains one prediction of a job: the commit and author of the prediction (Find),
// and, recomputed from the job's log, its samples and the contributions to its score
// (Explainer.Explain).
//
// # Contributions
//
// A readout's score is its bias plus, for each feature, the weight times the feature's distance
// from its training mean, limited if the readout has limits. Each product is the contribution of
// its feature. Contributions are summed by kind of feature, by member of the bank, and by the
// channels that members read. In float64, bias and contributions of n features equal the score
// within n/2^24 of the sum of their magnitudes, because the canonical score is one chain of n
// float32 operations. Usually the difference is far smaller.
//
// Contributions describe how the readout uses the states. They are not causes: two correlated
// channels share the evidence, and the contribution of a member with two channels cannot be divided
// between them.
//
// # A channel held
//
// The second view is independent of the model's structure: the sequence is recomputed with all
// samples of one channel replaced by the channel's training mean, and the scores are compared. No
// machine may produce such a sequence.
//
// Package internal/replay computes past states (internal/replay/past.go, internal/replay/asof.go,
// internal/replay/between.go); internal/cli/past draws explanations.
//
// # Files
//
//   - find.go: finds a prediction in the output of a job
//   - explain.go: computes a prediction again
//   - explanation.go: defines an explanation
//   - models.go: finds the model and readout of a prediction
//   - score.go: divides a score into contributions
//   - segments.go: divides the scores of a readout of segments
//   - hold.go: computes a prediction with a channel held at its training mean
//   - states.go: computes the open sequences of a state
//   - diff.go: compares two states of a partition
package explain
