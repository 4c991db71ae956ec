// Package learn joins the labels of a job with the sequences in its log, and keeps
// their features, for a readout to be learnt from. It fits nothing.
//
// A label names sequences in one of two ways (package labels). By times, it is about
// every sequence of the stream whose samples all lie in its interval. By seq and row,
// it is about the sequence of the prediction with these. A producer that begins again
// uses the same numbers again: of several sequences with that stream, seq and row, it
// is about the newest one that was stored before the label was, else about the first
// one that was stored after it.
//
// What is said of a sequence is decided so:
//
//   - Of what one person says, a label by seq and row counts before one by times, and a
//     later one before an earlier one.
//   - If all people who say something say the same class, it is the sequence's.
//   - If not, the sequence is not learnt from, until they agree or some withdraw.
//
// A label for which there is no sequence is pending. It is looked for again whenever
// there is new input; one by times, until its stream has a sequence with later samples.
//
// The store is a directory that belongs to one process:
//
//	learn.json            what the features are of, and how far labels and log were read
//	features-000001.seg   features of sequences, each once
//	sums-000001.sum       sums of features, of a group of sequences
//	lock
//
// Features are written to a temporary file, which gets its name when it is complete and
// on the disk. learn.json is replaced after that. So a kill loses at most the features of
// the last temporary file, and these are computed again. A segment is, with
// little-endian numbers:
//
//	"EUSNLERN" version:u32 features:u32
//	for each sequence: length:u32, so many bytes of JSON, the features as float32,
//	and the CRC-32C of JSON and features
//
// Sums are of a group of sequences: of one site, and said by the same people. Compact
// writes them to a temporary file, gives it its name, then writes the features that stay
// to a new segment, then removes the segments and the sums before. So after a kill
// something may be there twice: of two files with sums of one group the later one counts,
// and sequences whose features and sums are both there count once. A file of sums is
//
//	"EUSNLSUM" version:u32 length:u32, so many bytes of JSON: the group
//	for each sequence: length:u32, so many bytes of JSON with its class
//	the CRC-32C of all that:u32
//	the sums, as package readout encodes them
//
// Labels are not in the store. They are read whole each time, so that a correction or
// withdrawal costs nothing else.
//
// Package internal/replay computes the features of the log (internal/replay/features.go); package
// offline fits the readout (offline/update.go).
//
// # Files
//
//   - book.go: decides which label counts
//   - join.go: joins labels with sequences
//   - pass.go: reads the log for labeled sequences
//   - carried.go: reads features from predictions that carry features
//   - store.go: opens and updates the store of features
//   - segment.go: writes and reads files of features
//   - sums.go: writes and reads files of sums
//   - compact.go: replaces features by sums
//   - without.go: parses what to exclude
package learn
