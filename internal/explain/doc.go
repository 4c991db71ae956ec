// Package explain says how one prediction of a job came about: which commit it is in
// and who made it (Find), and, computed again from the job's log, which samples it is
// of and what made its score (Explainer.Explain).
//
// # Contributions
//
// A readout's score is its bias plus, for each feature, the weight times the feature's
// distance from its mean in training, limited where the readout has limits. Each of these
// products is the contribution of that feature. Contributions are added up by kind of
// feature, by member of the bank, and by the channels that members read. Added in
// float64, bias and contributions of n features are the score within n/2^24 of the sum of
// their magnitudes, because the canonical score is one chain of n float32 operations.
// Usually the difference is far smaller.
//
// What speaks for a class says how the readout reads the states. It is no cause: two
// channels that move together share what either of them could have said alone, and a
// member that reads two channels has no part that is of one of them.
//
// # A channel held
//
// The other view knows nothing of the model: the sequence is computed once more with all
// samples of one channel replaced by the channel's training mean, and the scores are
// compared. Such a sequence may be one that no machine makes.
//
// Package internal/replay computes the states of the past (internal/replay/past.go,
// internal/replay/asof.go, internal/replay/between.go); internal/cli/past draws explanations.
//
// # Files
//
//   - find.go: finds a prediction in the output of a job
//   - explain.go: computes a prediction again
//   - explanation.go: defines an explanation
//   - models.go: finds the model and readout of a prediction
//   - score.go: divides a score into contributions
//   - hold.go: computes a prediction with a channel held at its training mean
//   - states.go: computes the open sequences of a state
//   - diff.go: compares two states of a partition
package explain
