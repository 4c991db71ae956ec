// Package record writes the input of a job to files: each sample that the stage
// uses, once, in the order in which the stage uses it. It reads messages from the
// job's log (package inlog), hands them to the stage's own state machine, which
// drops repeats and holds early messages, and takes the samples that come out. It
// needs no network, publishes nothing, and joins nothing.
//
// A recording is a folder of numbered files, whose form belongs to who gives Files:
//
//	JOB-00000001.parquet, JOB-00000002.parquet, ...
//	.lock                 held by the one who writes
//	.JOB-....tmp          a file that is not complete
//
// A file appears whole, with the position behind it in its metadata. So samples
// and position commit together, by the rename of one file; nothing else decides.
// Who continues after a kill reads the newest file: its position names the last
// message that was taken, and holds the state of the state machine behind it (the
// numbers of each key, and the messages that wait for others). What was not in a
// complete file is read from the log again.
//
// Samples are numbered from 1 in each recording. A sample's hash is of its number
// and of all its columns; that of the end of a sequence of the number of its last
// sample. A fingerprint is the sum of these hashes in two words modulo 2^64. So it
// shows another order, a repeat or a loss, and does not depend on where one file
// ends and the next one begins. Verify computes it again, of the files and of the log.
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
