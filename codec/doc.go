// Package codec decodes Arrow IPC messages into plain Go slices and encodes
// predictions as Arrow IPC messages. The package takes no NATS type and returns
// no Arrow type.
//
// # Input
//
// One message is one complete IPC stream (schema, any number of record batches,
// end-of-stream marker), little endian, with these fields in any order; other
// fields are ignored:
//
//	<channel>...  one field per channel of the model, by name: float32, or any
//	              other float or integer type, which is cast
//	x             instead of the channel fields: FixedSizeList<...>[channels]
//	ts            optional: timestamp of any unit; becomes ns since 1970, UTC
//	end           optional: bool; true closes the stream's sequence after the row
//	stream_id     multi-stream messages only: utf8, large_utf8, utf8_view, a
//	              dictionary of these, or an integer, which is written in decimal
//
// If present, schema metadata eusn.schema=input and eusn.version=1 are checked.
// Bodies may be compressed with lz4 or zstd. Rows of one stream are in order of
// time; ts never decides order.
//
// # Output
//
//	stream_id utf8, seq uint64, row uint32, ts timestamp[ns, UTC] nullable,
//	class int32, score float32, probability float32 nullable,
//	scores FixedSizeList<float32>[C] (optional), flags uint32
//
// with eusn.schema=prediction, eusn.version=1, eusn.model, eusn.model_sha256,
// eusn.readout and eusn.labels (a JSON list) in the schema metadata. class is
// an index into the labels. flags holds the bits of type outcome.Flag: 1 gap, 2
// reordered, 4 held, 8 warm-up, 16 early, 32 poison-skipped, 64 idle, 128
// out-of-range, 256 flat, 512 length, 1024 rate, 2048 decided, 4096 abstain;
// outcome.Flag.Integrity returns the trust in the prediction as one word.
//
// A message of a partition with a promoted readout has one more column, readout
// (utf8): the readout of the prediction, as 32 digits of a SHA-256. The version
// stays the same: an older reader ignores the column. The metadata
// eusn.first_readout is the job's first readout.
//
// If a prediction has a value of a column in outcome.Extras, the message also
// has the column, in the order of outcome.Columns, which gives types, meanings
// and the condition for null: set (ascending indexes into the labels), novelty,
// novelty_p, inputs, change, value, low and high. Other messages do not have
// the column, and the version stays the same.
//
// The columns value, low and high, of a regression, come together. class is
// then 0, the only label is the name of the number, probability is null, and
// score and scores hold the value. So an older reader reads one class, always
// the same, with the value as its score.
//
// A message of a shadow has column readout, and five more columns after
// readout: active_class (int32), active_readout (utf8), began (timestamp, null
// if unknown), input (uint64) and stored (timestamp): the result of the active
// readout, and the input message. See Details.
//
// A message of predictions with features has column readout, and six more
// columns after readout: number (uint64: of the prediction in its partition),
// samples (int64: of its sequence), began, input and stored as in a message of
// a shadow, and features (a list of float32 of one length). See Details.
//
// seq, row and ts identify the last sample of the prediction's sequence. seq is
// the Eusn-Seq of the sample's message, 0 if messages have none. row is the
// sample's row in that message, from 0, counted over all record batches and
// streams of the message. ts is the sample's time, null if the message has
// none. An end may come without a sample (an end mark after the last row of an
// earlier message, a silence, an end event): then seq, row and ts come from the
// earlier message with the sample.
//
// scores has a score per class; with two classes there is one score, which is
// positive for class 1. score belongs to the predicted class: the largest
// score, or the absolute value of a single score. Scores may be any finite
// numbers, without a unit and without a common scale: scores of a ridge
// classifier are near -1 and 1 (its targets), scores of a discriminant are
// log-likelihoods plus a number common to all classes. Scores of one model may
// be compared with each other, scores of two models may not. A large score
// means that the features are far on the class's side. The features may also be
// far from the training data: a dead sensor scores higher than a healthy
// sensor.
//
// probability is the class's share, in (0, 1], of
//
//	softmax(temperature * scores), of (0, s) for a single score s
//
// with a temperature from the model. Training chooses the temperature by
// maximum likelihood on leave-one-out scores (package fit). probability is null
// if the model has no temperature. The calibration holds for sequences like the
// training sequences: among predictions with probability p, a share of about p
// is right. The probabilities divide 1 among the trained classes for any
// samples. So probability is near 1 for a dead sensor, too, and has no meaning
// for a machine state without a class. Such states may set the flags
// out-of-range, flat, length and rate, for a sequence unlike the training
// sequences. A prediction without a flag may still come from such a state.
//
// # Untrusted bytes
//
// Only this package's own bounds-checked flatbuffers reader reads a payload.
// The Arrow library writes our schemas, and the tests compare with the library,
// but the library parses no outside data: its v17 reader makes slices with
// unchecked lengths, which ends the process. No payload makes a decoder panic.
// The memory that a call allocates is bounded by a multiple of the payload's
// size plus a constant (the tests allow 64 times plus 3 MiB; zstd's first use
// adds up to 2 MiB, lz4 up to 16 MiB for its blocks). Compressed bodies may
// grow to 8 times the payload plus 1 MiB. A known schema is recognized by its
// bytes; then an uncompressed message is decoded without allocating.
//
// The package does not know subjects, sequence numbers of messages, headers or
// models; package pipeline combines them.
//
// Format: https://arrow.apache.org/docs/format/Columnar.html, section
// "Serialization and Interprocess Communication (IPC)".
//
// # Files
//
//   - decode.go: decodes an input message (Decoder); defines Schema and Batch
//   - plan.go: finds the columns of a schema; remembers known schemas
//   - gather.go: casts and copies samples; applies the policy for values that are not finite
//   - fields.go: reads the columns of times and end marks
//   - keys.go: reads the column of stream names
//   - texts.go: reads columns of strings
//   - schema.go: walks the fields of a schema message
//   - types.go: defines the types of fields
//   - batch.go: reads the nodes and buffers of a record batch
//   - inflate.go: decompresses buffers within a limit
//   - frame.go: cuts IPC messages
//   - flatbuf.go: reads flatbuffers with bounds checks
//   - errors.go: defines the kinds of errors in messages
//   - input.go: encodes input messages
//   - template.go: encodes messages of one schema without the Arrow library
//   - prediction.go: encodes predictions
//   - prediction_decode.go: decodes predictions
//   - details.go: encodes and decodes the columns that shadows and predictions with features add
//   - extra.go: encodes and decodes the columns that only some models fill (package outcome)
package codec
