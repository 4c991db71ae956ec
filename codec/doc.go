// Package codec turns Arrow IPC messages into plain Go slices and predictions
// into Arrow IPC messages. No NATS type comes in and no Arrow type goes out.
//
// # Input
//
// One message is one complete IPC stream (schema, any number of record
// batches, end-of-stream marker), little endian, with these fields in any
// order; other fields are ignored:
//
//	<channel>...  one field per channel of the model, by name: float32, or any
//	              other float or integer type, which is cast
//	x             instead of the channel fields: FixedSizeList<...>[channels]
//	ts            optional: timestamp of any unit; becomes ns since 1970, UTC
//	end           optional: bool; true closes the stream's sequence after the row
//	stream_id     multi-stream messages only: utf8, large_utf8, utf8_view, a
//	              dictionary of those, or an integer, which is written in decimal
//
// Schema metadata eusn.schema=input and eusn.version=1 are checked when they
// are there. Bodies compressed with lz4 or zstd are read. Rows of one stream
// are in order of time; ts never decides order.
//
// # Output
//
//	stream_id utf8, seq uint64, row uint32, ts timestamp[ns, UTC] nullable,
//	class int32, score float32, probability float32 nullable,
//	scores FixedSizeList<float32>[C] (optional), flags uint32
//
// with eusn.schema=prediction, eusn.version=1, eusn.model, eusn.model_sha256,
// eusn.readout and eusn.labels (a JSON list) in the schema metadata. class is an
// index into the labels. flags holds the bits of type outcome.Flag: 1 gap, 2
// reordered, 4 held, 8 warm-up, 16 early, 32 poison-skipped, 64 idle, 128
// out-of-range, 256 flat, 512 length, 1024 rate, 2048 decided, 4096 abstain; outcome.Flag.Integrity says in one word
// how far to trust the prediction.
//
// A message of a partition in which a readout was promoted has one more column after
// these, readout (utf8): which readout made the prediction, by 32 digits of a SHA-256.
// The version stays the same: a reader that does not know the column reads the others. The metadata eusn.first_readout is the job's first one.
//
// A message in which a prediction has a value of one of outcome.Extras has that column,
// too, after the others in the order of outcome.Columns, which gives types, meanings and
// when a value is null: set (ascending indexes into the labels), novelty, novelty_p, inputs,
// change, value, low and high. Other messages do not have the column, and the version stays
// the same.
//
// The columns value, low and high, of a regression, come together. class is then 0, the one
// label is the name of the number, probability is null, score and the one of scores are the
// value. So a reader that does not know the columns reads one class, always the same, and
// the value as its score.
//
// A message of a shadow has column readout, and five more behind it: active_class
// (int32), active_readout (utf8), began (timestamp, null where not known), input
// (uint64) and stored (timestamp): what the answering readout said, and of which input
// message. See Details.
//
// A message of predictions that carry their features has column readout, and six more
// behind it: number (uint64: of the prediction in its partition), samples (int64: of
// its sequence), began, input and stored as a shadow's, and features (a list of float32
// of one length). See Details.
//
// seq, row and ts say where the last sample of the prediction's sequence came
// from. seq is the Eusn-Seq of its message, 0 if messages have none. row is its
// row in that message, from 0, counted over all of the message's record batches
// and streams. ts is its time, null if the message has none. An end may come
// without a sample (an end mark after the last row of an earlier message, a
// silence, an end event): then they are those of the earlier message, which had
// the sample.
//
// scores are the readout's, one per class; with two classes there is one score,
// which is positive for class 1. score is that of the predicted class: the largest,
// or the absolute value of the one score. They may be any finite number, and have
// no unit and no common scale: a ridge classifier's are near -1 and 1 (its
// targets), a discriminant's are log-likelihoods plus a number that all classes
// share. Scores of one model may be compared with each other, scores of two models
// may not. A large score says that the features are far on the class's side. They
// may also be far from everything that the model has seen: a dead sensor scores
// higher than a healthy one.
//
// probability is the class's share, in (0, 1], of
//
//	softmax(temperature * scores), of (0, s) where there is one score s
//
// with a temperature from the model. Training chooses it by maximum likelihood on
// leave-one-out scores (package fit). probability is null where the model has
// no temperature. It is calibrated for sequences like those of the training: among
// predictions with probability p, a share of about p is right. It divides 1 among
// the trained classes whatever the samples are. So it is near 1 for a dead sensor,
// too, and says nothing about a state of the machine that has no class. For that
// look at the flags out-of-range, flat, length and rate: they say that a sequence is
// unlike the training's. Without a flag this is not proven.
//
// # Untrusted bytes
//
// Only this package's own bounds-checked flatbuffers reader reads a payload. The
// Arrow library writes our schemas, and the tests compare with it, but it parses
// nothing that came from outside: its v17 reader makes slices with lengths that it
// has not checked, which ends the process. No payload makes a decoder panic. The
// memory that a call allocates is bounded by a multiple of the payload's size plus
// a constant (the tests allow 64 times plus 3 MiB; zstd's first use adds up to
// 2 MiB, lz4 up to 16 MiB for its blocks). Compressed bodies may grow to 8 times
// the payload plus 1 MiB. A known schema is recognised by its bytes; then an
// uncompressed message is decoded without allocating.
//
// The package does not know subjects, sequence numbers of messages, headers
// or models; package pipeline puts those together.
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
