package archive

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
)

// groupValues is how many values make a row group: few enough to read with
// little memory, enough to compress well (4 MiB of float32).
const groupValues = 1 << 20

// maxSeries is how many series a dataset archive holds at most. A few bytes can
// claim any number of rows, and each costs a reader some hundred bytes.
const maxSeries = 1 << 24

// WriteDataset writes d as a dataset archive, a single file, over whatever is
// at path. It writes under a temporary name in the same directory and renames,
// so path holds the old file or the whole new one. d must pass Validate.
func WriteDataset(path string, d *Dataset) error {
	if err := d.Validate(); err != nil {
		return err
	}
	w, err := NewDatasetWriter(path, d, d.CountValues(), len(d.Series))
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := range d.Series {
		if err := w.Write(&d.Series[i]); err != nil {
			return err
		}
	}
	return w.Close()
}

// DatasetWriter writes a dataset archive series by series.
type DatasetWriter struct {
	file   *archiveFile
	head   *Dataset // the archive's data except the series; the series of head are ignored
	rows   *array.RecordBuilder
	values int // in rows
}

// NewDatasetWriter begins the archive of a data set with the given numbers of values, or tokens, and series.
func NewDatasetWriter(path string, head *Dataset, values int64, series int) (*DatasetWriter, error) {
	if values > datafile.MaxValues || series > maxSeries {
		return nil, fmt.Errorf("offline: data set %q holds %d values in %d series, an archive at most %d in %d", head.Name, values, series, datafile.MaxValues, maxSeries)
	}
	schema := datasetSchema(head)
	file, err := createArchive(path, schema, writerProps([]string{"split", "label"}, false))
	if err != nil {
		return nil, err
	}
	return &DatasetWriter{file: file, head: head, rows: array.NewRecordBuilder(memory.DefaultAllocator, schema)}, nil
}

// Write writes a series, which must be sound, and keeps no reference to it.
func (w *DatasetWriter) Write(s *Series) error {
	appendSeries(w.rows, w.head, s)
	if w.values += len(s.Values) + len(s.Tokens); w.values < groupValues {
		return nil
	}
	w.values = 0
	return writeGroup(w.file, w.rows)
}

// Close ends the archive and puts the file in its place.
func (w *DatasetWriter) Close() error {
	if w.values > 0 {
		if err := writeGroup(w.file, w.rows); err != nil {
			return err
		}
	}
	return w.file.commit()
}

// Abort removes the file; after Close the archive is not changed.
func (w *DatasetWriter) Abort() {
	w.rows.Release()
	w.file.abort()
}

// CountValues counts the values, or tokens, of all series.
func (d *Dataset) CountValues() (n int64) {
	for i := range d.Series {
		n += int64(len(d.Series[i].Values) + len(d.Series[i].Tokens))
	}
	return n
}

func datasetSchema(d *Dataset) *arrow.Schema {
	fields := []arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String},
		{Name: "split", Type: arrow.BinaryTypes.String},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "length", Type: arrow.PrimitiveTypes.Int32},
	}
	for _, c := range d.Channels {
		fields = append(fields, arrow.Field{Name: c, Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32)})
	}
	if len(d.Channels) == 0 {
		fields = append(fields, arrow.Field{Name: "tokens", Type: arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int32)})
	}
	m := archiveMeta{layout: layoutDataset, problem: d.Name, channels: d.Channels, classes: d.Classes, source: d.Source}
	meta := m.arrow()
	return arrow.NewSchema(fields, &meta)
}

// appendSeries adds a series of d as a row.
func appendSeries(b *array.RecordBuilder, d *Dataset, s *Series) {
	b.Field(0).(*array.StringBuilder).Append(s.ID)
	b.Field(1).(*array.StringBuilder).Append(string(s.Split))
	if s.Label < 0 {
		b.Field(2).AppendNull()
	} else {
		b.Field(2).(*array.StringBuilder).Append(d.Classes[s.Label])
	}
	b.Field(3).(*array.Int32Builder).Append(int32(d.length(s)))
	for c := range d.Channels {
		list := b.Field(4 + c).(*array.ListBuilder)
		list.Append(true)
		values := list.ValueBuilder().(*array.Float32Builder)
		values.Reserve(d.length(s))
		for t := c; t < len(s.Values); t += len(d.Channels) {
			values.UnsafeAppend(s.Values[t])
		}
	}
	if len(d.Channels) == 0 {
		list := b.Field(4).(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Int32Builder).AppendValues(s.Tokens, nil)
	}
}

// writeGroup writes the rows in b as a row group.
func writeGroup(file *archiveFile, b *array.RecordBuilder) error {
	rec := b.NewRecord()
	defer rec.Release()
	if err := file.parquet.Write(rec); err != nil {
		return fmt.Errorf("offline: %s: %w", file.path, err)
	}
	return nil
}

// WriteTable writes the rows appended by fill to a Parquet file of one row group, in the way of an archive: path
// holds the old file or the whole new file. The columns in dictionary have
// few distinct values. WriteTable calls fill once.
func WriteTable(path string, schema *arrow.Schema, dictionary []string, fill func(*array.RecordBuilder)) error {
	file, err := createArchive(path, schema, writerProps(dictionary, false))
	if err != nil {
		return err
	}
	rows := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer rows.Release()
	fill(rows)
	if err := writeGroup(file, rows); err != nil {
		file.abort()
		return err
	}
	return file.commit()
}
