// Package imports reads published data sets, token lists and CSV recordings, for
// archives.
//
// [Import] reads the formats of the time-series community: UEA and aeon .ts files, UCR
// .tsv files, .arff files (univariate and relational), idx images (MNIST) and token
// lists; each may be compressed with gzip. Files are read line by line and compared with
// their headers. Every error begins with file and line number. [ImportRecording] converts
// CSV recordings into a recording archive without holding the samples in memory.
//
// [Embed] converts token lists to series: it learns a vector for each word and writes
// each document as the vectors of its words.
//
// Formats: https://www.aeon-toolkit.org (ts), Dau et al. 2019, "The UCR Time Series
// Archive" (tsv), https://waikato.github.io/weka-wiki (arff).
//
// # Files
//
//   - absent.go: warns about series without values
//   - recording_csv.go: reads CSV recordings
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
//   - summary.go: counts series, classes and values of a data set
package imports
