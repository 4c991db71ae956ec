// Package backfill computes the predictions of old messages beside the live
// stage, and writes them to a file, each once. It reads messages from a job's
// input (inlog.Log) or from anywhere else (inlog.Source), hands them to a shard that it drives
// by itself, and publishes nothing: the job on the server stays as it is.
//
// All keys are in one partition. A key's state depends on its own messages alone,
// so this gives the bits that the job gives, whatever its number of partitions was
// when. Only limits differ: a partition's limits on streams and waiting bytes
// (MaxStreams, ReorderBytes) hold for all partitions together here, and are
// multiplied by their number.
//
//	FILE.part      the predictions so far, a line each, in the order of the messages
//	FILE.position  how far they go, and the states there
//	FILE           the predictions, when all are there
//
// The lines depend on the messages alone, not on how they came in batches. A
// position is stored after the lines before it are on the disk. A computation that
// continues after a kill cuts off what lies behind the position and computes it
// again. So its file has the bytes of one that nobody has interrupted.
//
// A position file is, with little-endian numbers:
//
//	"EUSNBACK" version:u32 length:u32 the position in JSON, so many bytes
//	the state of the partition, as in a snapshot (package state)
//	sha256 of everything before it
//
// # Files
//
//   - backfill.go: computes predictions of old messages
//   - output.go: writes the file of predictions
//   - position.go: encodes the position from which a backfill continues
package backfill
