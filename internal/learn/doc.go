// Package learn joins the labels of a job with the sequences in its log, and stores the sequences'
// features, from which a readout can be fitted. It does not fit.
//
// A label names sequences in one of two ways (package labels). A label by times names every
// sequence of the stream whose samples all lie in its interval. A label by seq and row names the
// sequence of the prediction with these numbers. A restarted producer reuses numbers: of several
// sequences with the same stream, seq and row, the label names the newest sequence stored before
// the label, or else the first sequence stored after the label.
//
// The class of a sequence is decided as follows:
//
//   - Among the labels of one person, a label by seq and row precedes a label by times, and
//     a later label precedes an earlier label.
//   - If all persons with labels agree, the sequence has their class.
//   - Otherwise the sequence is not used until they agree or withdraw labels.
//
// A label without a sequence is pending. Each new input is searched for its sequence; a label by
// times is pending until its stream has a sequence with later samples.
//
// The store is a directory that belongs to one process:
//
//	learn.json            origin of the features, and the read positions of labels and log
//	features-000001.seg   features of sequences, each once
//	sums-000001.sum       sums of features, of a group of sequences
//	lock
//
// Features are written to a temporary file, which is renamed when it is complete and on the disk.
// learn.json is replaced after that. A kill thus loses at most the features of the last temporary
// file, which are recomputed. A segment is, with little-endian numbers:
//
//	"EUSNLERN" version:u32 features:u32
//	for each sequence: length:u32, JSON of this length, the features as float32,
//	and the CRC-32C of JSON and features
//
// Sums belong to a group of sequences: of one site, labeled by the same persons. Compact writes
// sums to a temporary file, renames the file, then writes the remaining features to a new segment,
// then removes the previous segments and sums. After a kill, data may exist twice: of two files
// with sums of one group, the later file counts, and a sequence with both features and sums counts
// once. A file of sums is
//
//	"EUSNLSUM" version:u32 length:u32, JSON of this length: the group
//	for each sequence: length:u32, JSON of this length with its class
//	the CRC-32C of all previous bytes:u32
//	the sums, as package exact encodes them
//
// Labels are not in the store. All labels are read each time, so that a correction or withdrawal
// needs no extra work.
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
