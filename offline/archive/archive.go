package archive

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// archiveVersion is the version of both layouts; readers refuse other versions.
const archiveVersion = 1

// The two layouts, as values of eusn.archive.
const (
	layoutDataset   = "dataset"
	layoutRecording = "recording"
)

// The metadata keys of an archive.
const (
	keyArchive    = "eusn.archive"
	keyVersion    = "eusn.version"
	keyProblem    = "eusn.problem"
	keyClasses    = "eusn.classes"
	keyChannels   = "eusn.channels"
	keyProvenance = "eusn.provenance"
	KeyTimeUnit   = "eusn.time_unit" // of a recording's times that are numbers
)

// datasetColumns and recordingColumns are the columns of an archive that are no channels.
var (
	datasetColumns   = []string{"id", "split", "label", "length", "tokens"}
	recordingColumns = []string{"stream", "seq", "time", "end", "label"}
)

// archiveMeta is the metadata of an archive.
type archiveMeta struct {
	layout   string
	problem  string
	channels []string
	classes  []string // dataset only
	source   Provenance
}

// arrow returns m as key-value metadata, without a still unknown provenance.
func (m *archiveMeta) arrow() arrow.Metadata {
	pairs := map[string]string{
		keyArchive:  m.layout,
		keyVersion:  strconv.Itoa(archiveVersion),
		keyProblem:  m.problem,
		keyChannels: toJSON(m.channels),
	}
	if m.layout == layoutDataset {
		pairs[keyClasses] = toJSON(m.classes)
		pairs[keyProvenance] = toJSON(m.source)
	}
	return arrow.MetadataFrom(pairs)
}

func toJSON(v any) string {
	if s, ok := v.([]string); ok && s == nil {
		return "[]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: offline: metadata cannot be JSON: " + err.Error())
	}
	return string(b)
}

// writerProps are the storage settings of archives. Values go without dictionary: it would merge NaNs of different
// bits, and numbers seldom repeat.
func writerProps(dictionary []string, stats bool) *parquet.WriterProperties {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(false),
		parquet.WithStats(stats),
		parquet.WithAllocator(memory.DefaultAllocator),
	}
	for _, column := range slices.DeleteFunc(dictionary, func(c string) bool { return c == "" }) {
		props = append(props, parquet.WithDictionaryFor(column, true))
	}
	return parquet.NewWriterProperties(props...)
}

// archiveFile is an unfinished Parquet file, under a temporary name next to its place; commit renames the file.
type archiveFile struct {
	path    string
	tmp     *os.File
	buf     *bufio.Writer
	written int64 // bytes that have left buf
	parquet *pqarrow.FileWriter
}

// Write implements io.Writer for buf.
func (a *archiveFile) Write(b []byte) (int, error) {
	n, err := a.tmp.Write(b)
	a.written += int64(n)
	return n, err
}

func createArchive(path string, schema *arrow.Schema, props *parquet.WriterProperties) (*archiveFile, error) {
	if strconv.IntSize == 32 {
		// Arrow 17 counts references with 64-bit atomics that are not aligned there, and panics.
		return nil, fmt.Errorf("offline: %s: archives cannot be written on a processor of 32 bits (%s), only read: write it on another machine", path, runtime.GOARCH)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	a := &archiveFile{path: path, tmp: tmp}
	a.buf = bufio.NewWriterSize(a, 1<<20)
	// The buffer is no io.Closer, so the library leaves the file open for sync.
	a.parquet, err = pqarrow.NewFileWriter(schema, a.buf, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		a.abort()
		return nil, fmt.Errorf("offline: %s: %w", path, err)
	}
	return a, nil
}

// private is the mode of files with samples or predictions: only for their owner.
const private = 0o600

// commit ends the file and puts it in its place, durably.
func (a *archiveFile) commit() error {
	err := a.parquet.Close()
	if err == nil {
		err = a.buf.Flush()
	}
	if err != nil {
		a.abort()
	} else {
		err = durable.Commit(a.tmp, a.path, private)
	}
	if err != nil {
		return fmt.Errorf("offline: %s: %w", a.path, err)
	}
	return nil
}

// abort removes the file. It may follow a failed commit.
func (a *archiveFile) abort() {
	a.tmp.Close()
	os.Remove(a.tmp.Name())
}

// readMeta takes the metadata of an archive apart; get finds a key's value.
func readMeta(want string, get func(string) *string) (*archiveMeta, error) {
	value := func(key string) string {
		if v := get(key); v != nil {
			return *v
		}
		return ""
	}
	m := &archiveMeta{layout: value(keyArchive), problem: value(keyProblem)}
	switch {
	case m.layout == "":
		return nil, fmt.Errorf("metadata key %s is missing: this Parquet file is not an archive of eusn-stream; docs/parquet.md has the statement that makes one of a table in DuckDB", keyArchive)
	case m.layout != want:
		return nil, fmt.Errorf("this is a %s archive, want a %s archive", names.Cut(m.layout, 40), want)
	case value(keyVersion) != strconv.Itoa(archiveVersion):
		return nil, fmt.Errorf("it has version %q, and this program reads version %d: use the program that wrote it, or import again", value(keyVersion), archiveVersion)
	}
	fields := map[string]any{keyChannels: &m.channels, keyProvenance: &m.source}
	if want == layoutDataset {
		fields[keyClasses] = &m.classes
	}
	for key, into := range fields {
		if err := json.Unmarshal([]byte(value(key)), into); err != nil {
			return nil, fmt.Errorf("metadata key %s: %w", key, err)
		}
	}
	if len(m.channels) > datafile.MaxChannels || slices.Contains(m.channels, "") {
		return nil, fmt.Errorf("metadata key %s: want at most %d channels, each with a name", keyChannels, datafile.MaxChannels)
	}
	return m, nil
}
