// Package offline works on data at rest: it imports benchmark data sets and
// recordings, keeps them as Parquet archives, retrains readouts on them and
// evaluates models.
//
// # Import
//
// [Import] reads what the time-series community publishes: UEA and aeon .ts
// files, UCR .tsv files, .arff files (univariate and relational), idx images
// (MNIST) and token lists; each may be compressed with gzip. Files are read
// line by line and compared with their headers. Every error begins with file and
// line number. [ImportRecording] turns CSV recordings
// into a recording archive without holding them in memory.
//
// [Embed] makes series of token lists: it learns a vector for each word and
// writes each document as those of its words.
//
// # Archives
//
// An archive is one Parquet file, compressed with zstd, written under a
// temporary name and renamed when whole. Two layouts share the metadata keys
// eusn.archive (dataset or recording), eusn.version (1), eusn.problem (name),
// eusn.channels (JSON list) and eusn.provenance (JSON, see [Provenance]):
//
//	dataset: a row per series         recording: a row per sample
//	  id      utf8                      stream  utf8
//	  split   utf8   train or test      seq     int64
//	  label   utf8   null: unknown      time    timestamp[ns, UTC], null: unknown
//	  length  int32  samples            CHANNEL float32, one column each
//	  CHANNEL list<float32>, each       end     bool   sequence ends here
//	  tokens  list<int32> instead       label   utf8   null: unknown
//
// What eusn-stream record writes of a job's input is a recording in several
// files, whose seq counts the samples of the whole recording. It has five
// columns more: eusn_key utf8, eusn_input int64 (number of the message in the log),
// eusn_seq int64 (Eusn-Seq), eusn_row int64 (of the sample in the message) and
// eusn_flags uint32 (outcome.Flag: what happened before the sample); and the keys
// eusn.recording (which), eusn.ends and eusn.silent (JSON lists of seq: samples with
// which a sequence ends, as a message or silence said after they were written).
// [RetrainFiles] and [EvaluateFiles] read all files as one. A [LabelFile] says what
// the samples of a recording were.
//
// A dataset also holds eusn.classes (JSON list): the classes in the order of
// the label indices. NaN marks a missing value; values are never null.
// A name (of a class, channel, series, stream or data set) is UTF-8 of at most 256
// bytes without control characters, so that no text of a file can control the
// terminal that shows it. Importers and readers refuse other names.
// An archive keeps numbers bit for bit. DuckDB 1.5 reads both layouts (it shows
// times to the microsecond). Files that it writes with the same metadata can be
// read: samples of any float or integer type are rounded to float32, length and
// seq may be any integer. docs/parquet.md has the
// statements.
//
// # What is learnt and predicted
//
// [Retrain] and [Evaluate] read streams of labelled samples: the series of a data
// set, or with [RetrainFiles] and [EvaluateFiles] a recording's streams,
// row group by row group. They cut them with the live stage's own sequencer
// (package internal/sequence) and fill missing values as it does, so a model
// learns from the sequences it will meet, and an evaluation makes the predictions
// that the stage makes, bit for bit and with the same flags. A sequence has the
// label that all its samples have; nothing is learnt from other sequences. To
// choose the regularisation, all sequences of one series, or of one labelled part
// of a stream, are left out together. See docs/policies.md.
//
// # Training
//
// [Retrain] and [RetrainFiles] read their data at least twice: first to cut it
// by the policy and to compute the constants of the input transform, then to run
// it through the network. Features go into a readout.Learner block by block, in
// the order of the sequences, while engines run ahead. Neither threads nor the
// size of calls change a bit of the model. The memory is planned before the work
// begins (RetrainReport.Plan) and bounded by RetrainOptions.Memory. With more
// sequences than features it holds F x F numbers of twelve bytes, 160 MiB of
// features to choose the regularisation by, two blocks of features, and the data
// set; otherwise all features, in memory or in a temporary file.
//
// [RetrainShard] does one share of a training and [MergeShards] makes the model
// of all. A shard's file is EUSNPART, version (uint32, 1), length (uint32) and
// JSON of the job, length and JSON of the shard, what readout.Learner.Encode
// writes, and the SHA-256 of all that; numbers are little-endian. The job's JSON
// is the same in all shards, to the byte: data, network, options and the
// program's version. So shards must be merged by the version that made them, and
// the files are not needed afterwards.
//
// A cancelled training ends after the current engine call (32,768 samples at
// most), a block of features, or a step of a factorisation.
//
// # Not here
//
// The package never prints (see [Progress]), and does not know NATS or how an
// engine is chosen.
//
// Formats: https://www.aeon-toolkit.org (ts), Dau et al. 2019, "The UCR Time
// Series Archive" (tsv), https://waikato.github.io/weka-wiki (arff),
// https://parquet.apache.org (archives).
//
// # Files
//
//   - retrain.go: trains a model (Retrain)
//   - retrain_options.go: defines the options and the report of a training
//   - plan.go: plans the examples of a training before any state is computed
//   - sequences.go: cuts the streams of a source into sequences
//   - sequence_samples.go: moves the track of a stream and keeps its transformed samples
//   - sample_source.go: reads the series of a data set as streams
//   - recording_source.go: reads the streams of a recording
//   - sites.go: finds the label and the group of each example
//   - states.go: computes the states of sequences on engines
//   - collect.go: passes features on in the order of the plan
//   - inputs.go: computes the input statistics of a training part
//   - front.go: parses front ends and their lengths
//   - forecast.go: predicts the time that a training takes
//   - priors.go: parses numbers per class, such as priors
//   - adapt.go: adapts the thresholds of sets and intervals to labels
//   - early.go: fits a readout of prefixes and the rule of early decisions
//   - novelty.go: fits a novelty detector; trains models of healthy data
//   - novelty_check.go: checks a new detector with simulated signals
//   - novelty_count.go: evaluates a detector
//   - evaluate.go: evaluates a model exactly as the live stage predicts
//   - prediction.go: defines a prediction of an evaluation
//   - predictions.go: writes predictions to a Parquet file
//   - relearn.go: fits a readout from stored features
//   - relearn_sums.go: fits a readout from stored sums
//   - shard.go: trains one shard of a training
//   - shard_merge.go: merges the shards of a training into a model
//   - group_sizes.go: counts the series of each group
//   - parts.go: restricts a data set to groups; holds out sites
//   - dataset.go: defines data sets
//   - dataset_summary.go: counts series, classes and values of a data set
//   - absent.go: warns about series without values
//   - class_names.go: joins labels that are the same number
//   - archive.go: defines the metadata of archives; creates archive files
//   - archive_write.go: writes a data set as a Parquet archive
//   - archive_read.go: reads a data set from a Parquet archive
//   - archive_columns.go: reads columns of untrusted Parquet files
//   - archive_numbers.go: converts columns of numbers
//   - archive_headers.go: checks page headers and limits decompression
//   - archive_pages.go: checks pages against their headers
//   - recording.go: writes recordings
//   - recording_read.go: reads recordings
//   - recording_csv.go: reads CSV recordings
//   - recorded.go: defines the columns of recordings of a job's input
//   - recorded_files.go: reads a recording from several files
//   - label_file.go: reads files of labels
//   - label_fit.go: counts the labels that match samples
//   - times.go: converts times and their units
//   - content.go: marks errors in the content of a file
//   - import.go: imports published data sets
//   - import_find.go: finds the files of a data set and their format
//   - import_recording.go: imports CSV recordings
//   - read_source.go: reads input files line by line within limits
//   - read_part.go: holds the series of one input file
//   - read_arff.go: parses ARFF files
//   - read_csv.go: parses CSV recordings
//   - read_idx.go: parses IDX images
//   - read_ts.go: parses TS files
//   - read_tsv.go: parses TSV files
//   - read_tokens.go: parses token lists
//   - embed.go: converts token lists to series of word vectors
//   - machine.go: simulates the vibration of a rotating machine
//   - machine_draw.go: draws the random numbers of the simulation
//   - wave.go: computes the sine of the simulation
//   - plant.go: simulates a plant of machines that run without an end
package offline
