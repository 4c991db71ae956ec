// Package record writes the input of a job to files: each sample that the stage uses,
// once, in the order of use. The package reads messages from the job's log (package
// inlog), passes the messages to the stage's state machine (which drops repeats and
// holds early messages), and collects the resulting samples. It needs no network
// weights, publishes nothing, and joins no job.
//
// A recording is a folder of numbered files, in the format of a Files implementation:
//
//	JOB-00000001.parquet, JOB-00000002.parquet, ...
//	.lock                 held by the one who writes
//	.JOB-....tmp          a file that is not complete
//
// A file appears as a whole, with the position after its messages in its metadata. So
// samples and position are committed together, by the rename of one file; nothing else
// decides. A restart after a kill reads the newest file: its position names the last
// message used, and holds the state of the state machine (the numbers of each key, and
// the held messages). Samples outside complete files are re-read from the log.
//
// Samples are numbered from 1 in each recording. A sample's hash covers the number and
// all columns; the hash of the end of a sequence covers the number of the last sample.
// A fingerprint is the sum of these hashes in two words modulo 2^64. It shows a changed
// order, a repeat or a loss, and does not depend on the file boundaries. Verify
// recomputes the fingerprint, from the files and from the log.
//
// The position is JSON (Position, under the key eusn.record) and the state, under
// eusn.record.state: base64 of zstd of
//
//	entries:u32, per stream whose last sample may still get an end mark:
//	  key stream number:u64, strings with their length:u32 before them
//	the state of the partition, as in a snapshot (package state)
//
// # Files
//
//   - record.go: records messages into files
//   - taker.go: collects the samples that the state machine uses
//   - rows.go: defines recorded samples
//   - folder.go: locks the folder of a recording and lists its files
//   - position.go: encodes the position from which a recording continues
//   - reached.go: reads the position of a recording next to a recorder
//   - verify.go: compares the files of a recording with the log
package record
