// Package archive keeps data sets and recordings as Parquet files.
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
// eusn-stream record writes a job's input as a recording in several files, whose seq counts the samples of the whole
// recording. The recording has five additional columns: eusn_key utf8, eusn_input int64 (number of the message in the
// log), eusn_seq int64 (Eusn-Seq), eusn_row int64 (of the sample in the message) and eusn_flags uint32 (outcome.Flag:
// events before the sample); and the keys eusn.recording (the identity of the recording), eusn.ends and eusn.silent
// (JSON lists of seq: last samples of sequences that a message or silence ended after the samples were written).
// [RecordingFiles] reads all files as one. A [LabelFile] labels the samples of a recording.
//
// A dataset also holds eusn.classes (JSON list): the classes in the order of the label indices. NaN marks a missing
// value; values are never null. A name (of a class, channel, series, stream or data set) is UTF-8 of at most 256
// bytes without control characters, so that no text of a file can control the terminal that shows the text. Importers
// and readers refuse other names. An archive keeps numbers bit for bit. DuckDB 1.5 reads both layouts (it shows times
// to the microsecond). Archive files written by DuckDB with the same metadata can be read: samples of any float or
// integer type are rounded to float32, length and seq may be any integer. docs/parquet.md has the statements.
//
// # Damaged files
//
// Files may be damaged or hostile: a reader gives one error that names the file, in
// bounded memory, and never panics. Errors of the content are a [datafile.ContentError].
//
// Format: https://parquet.apache.org.
//
// # Files
//
//   - dataset.go: defines data sets and Progress
//   - data.go: joins data sets and recordings
//   - archive.go: defines the metadata of archives; creates archive files
//   - archive_write.go: writes a data set as a Parquet archive
//   - archive_read.go: reads a data set from a Parquet archive
//   - archive_columns.go: reads columns of untrusted Parquet files
//   - archive_numbers.go: converts columns of numbers
//   - archive_headers.go: checks page headers and limits decompression
//   - archive_pages.go: checks pages against their headers and dictionaries
//   - recording.go: writes recordings
//   - recording_read.go: reads recordings
//   - recorded.go: defines the columns of recordings of a job's input
//   - recorded_files.go: reads a recording from several files
//   - label_file.go: reads files of labels
//   - label_fit.go: counts the labels that match samples
//   - times.go: converts times and their units
//   - dataset_groups.go: reads the groups of a data set
//   - recording_content.go: finds the classes and the fingerprint of a recording
package archive
