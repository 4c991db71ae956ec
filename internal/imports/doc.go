// Package imports reads published data sets, token lists and tables of recordings, for
// archives.
//
// [Import] reads the formats of the time-series community: UEA and aeon .ts files, UCR
// .tsv files, .arff files (univariate and relational), idx images (MNIST) and token
// lists; each may be compressed with gzip. Files are read line by line and compared with
// their headers. Every error begins with file and line number.
//
// [ImportRecording] converts tables, such as CSV files, text files with blanks and NPZ files,
// into a recording archive without holding the samples in memory. [Table] describes the
// tables; the first lines of a file determine the rest: the delimiter, the decimal sign and
// the kind of each column (findDialect, resolveColumns). A [Profile] grades the values of
// each channel.
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
//   - import_recording.go: imports recordings from tables
//   - read_source.go: reads input files line by line within limits
//   - read_part.go: holds the series of one input file
//   - read_arff.go: parses ARFF files
//   - read_csv.go: parses samples of tables
//   - read_npz.go: reads NPZ files as tables
//   - table.go: defines the options of tables
//   - table_clock.go: parses numbers and times
//   - table_dialect.go: finds delimiter, decimal sign and header; splits lines
//   - table_rows.go: reads the rows of a text file
//   - table_columns.go: finds the kind of each column
//   - table_profile.go: grades channels and measures the sampling rate
//   - profile_runs.go: grades channels of samples in memory
//   - table_files.go: finds and opens the files of a recording
//   - table_set.go: reads all tables of a recording
//   - table_runs.go: reads the table with a row for each stream
//   - table_sensors.go: reads files of one sensor, and runs in rows
//   - table_values.go: reads tables with a row for each value
//   - table_mapping.go: reads and writes mapping files
//   - read_idx.go: parses IDX images
//   - read_ts.go: parses TS files
//   - read_tsv.go: parses TSV files
//   - read_tokens.go: parses token lists
//   - embed.go: converts token lists to series of word vectors
//   - summary.go: counts series, classes and values of a data set
package imports
