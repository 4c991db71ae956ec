// Package offline works on data at rest, the archives of package archive: it retrains readouts and evaluates models.
//
// # Training data and predictions
//
// [Retrain] and [Evaluate] read streams of labeled samples: the series of a data set, or a
// recording's streams, row group by row group. Streams are cut with the live stage's own sequencer
// (package internal/sequence), and missing values are filled as in the stage, so a model learns from the sequences of
// its later work, and an evaluation makes the stage's predictions, bit for bit and with the same flags. A sequence
// has a label if all its samples have this label; nothing is learned from other sequences. To choose the
// regularization, all sequences of one series, or of one labeled part of a stream, are left out together. See
// docs/policies.md.
//
// # Training
//
// [Retrain] reads its data at least twice: first to cut sequences by the policy and to compute
// the constants of the input transform, then to run the sequences through the network. Features go into a fit.Learner
// block by block, in the order of the sequences, while engines run ahead. Neither threads nor the size of calls
// change a bit of the model. The memory is planned before the work begins (RetrainReport.Plan) and bounded by
// RetrainOptions.Memory. With more sequences than features the memory holds F x F numbers of twelve bytes, 160 MiB of
// features to choose the regularization by, two blocks of features, and the data set; otherwise all features, in
// memory or in a temporary file.
//
// [RetrainShard] does one share of a training and [MergeShards] makes the model from all shares. A shard's file is
// EUSNPART, version (uint32, 1), length (uint32) and JSON of the job, length and JSON of the shard, the output of
// fit.Learner.Encode, and the SHA-256 of all these bytes; numbers are little-endian. The job's JSON is the same in
// all shards, to the byte: data, network, options and the program's version. So shards must be merged by their own
// version, and the files are not needed afterwards.
//
// A canceled training ends after the current engine call (32,768 samples at most), a block of features, or a step of
// a factorization.
//
// # Outside this package
//
// The package never prints (see archive.Progress), and depends neither on NATS nor on the choice of an engine.
//
// # Files
//
//   - retrain.go: trains a model (Retrain)
//   - retrain_options.go: defines the options and the report of a training
//   - plan.go: plans the examples of a training before any state is computed
//   - sequences.go: cuts the streams of a source into sequences and keeps the transformed samples
//   - sample_source.go: reads the series of a data set; merges classes; computes input statistics
//   - recording_source.go: reads the streams of a recording
//   - labels.go: finds the label and the group of each point
//   - sites.go: describes the groups of a training
//   - states.go: computes the states of sequences on engines
//   - collect.go: passes features on in the order of the plan
//   - front.go: parses front ends and their lengths
//   - regimes.go: finds operating regimes by their settings
//   - random.go: fits a readout of random features, and chooses between it and the network's
//   - segments.go: fits a readout of segments, and chooses between it and the network's
//   - forecast.go: predicts the time that a training takes
//   - priors.go: parses numbers per class, such as priors
//   - early.go: fits a readout of prefixes and rules of early decisions; adapts thresholds
//   - novelty.go: fits a novelty detector; trains models of healthy data
//   - novelty_check.go: checks a new detector with simulated signals
//   - novelty_count.go: evaluates a detector
//   - evaluate.go: evaluates a model exactly as the live stage predicts
//   - evaluation.go: defines predictions and figures of an evaluation
//   - predictions.go: defines a prediction of an evaluation; writes predictions to a Parquet file
//   - bridge.go: gives the program's own packages functions that other modules need not see
//   - update.go: fits a readout from stored features or sums
//   - shard.go: trains one shard of a training
//   - shard_merge.go: merges the shards of a training into a model
//   - group_sizes.go: counts the series of each group
//   - parts.go: restricts a data set to groups; holds out sites
package offline
