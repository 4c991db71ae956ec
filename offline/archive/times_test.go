package archive

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

// recordingOf has the times of a stream.
func recordingOf(times archivetest.Column) (map[string]string, []archivetest.Column) {
	meta := map[string]string{keyArchive: layoutRecording, keyVersion: "1", keyProblem: "R", keyChannels: `["a"]`, keyProvenance: `{}`}
	return meta, []archivetest.Column{
		{"stream", archivetest.Text, `["p","p","q"]`}, {"seq", arrow.PrimitiveTypes.Int64, `[1,2,1]`}, times,
		{"a", archivetest.Number, `[1,2,3]`}, {"end", arrow.FixedWidthTypes.Boolean, `[false,true,false]`}, {"label", archivetest.Text, `[null,"x",null]`},
	}
}

// TestTimeUnits reads times of every unit, as numbers and as timestamps that were cast from another unit than their
// type.
func TestTimeUnits(t *testing.T) {
	const day = 1767225600 // 2026-01-01, s
	for unit, c := range map[string]struct{ numbers, cast string }{
		"s":  {`[1767225600,null,1767225601]`, `[1767225600,null,1767225601]`},
		"ms": {`[1767225600000,null,1767225601000]`, `[1767225600000,null,1767225601000]`},
		"us": {`[1767225600000000,null,1767225601000000]`, `[1767225600000000,null,1767225601000000]`},
		"ns": {`[1767225600000000000,null,1767225601000000000]`, `[1767225600000000000,null,1767225601000000000]`},
	} {
		for _, column := range []archivetest.Column{{"time", arrow.PrimitiveTypes.Int64, c.numbers}, {"time", arrow.FixedWidthTypes.Timestamp_ns, c.cast}} {
			meta, columns := recordingOf(column)
			meta[KeyTimeUnit] = unit
			got, err := recordingBytes(archivetest.Foreign(t, meta, columns))
			if err != nil {
				t.Fatalf("%s: %v", unit, err)
			}
			if want := []int64{day * 1e9, NoTime, (day + 1) * 1e9}; !slices.Equal(got.Time, want) {
				t.Errorf("%s: %v, want %v", unit, got.Time, want)
			}
		}
	}
	meta, columns := recordingOf(archivetest.Column{"time", arrow.PrimitiveTypes.Int64, `[1,2,3]`})
	meta[KeyTimeUnit] = "hours"
	_, err := recordingBytes(archivetest.Foreign(t, meta, columns))
	archivetest.WantError(t, err, `key eusn.time_unit is "hours", want one of`)
	meta[KeyTimeUnit] = "s"
	columns[2].Rows = `[9223372037,2,3]`
	_, err = recordingBytes(archivetest.Foreign(t, meta, columns))
	archivetest.WantError(t, err, "does not fit into 64-bit nanoseconds")
}

// TestInt96Times reads the times of older writers.
func TestInt96Times(t *testing.T) {
	meta, columns := recordingOf(archivetest.Column{"time", arrow.FixedWidthTypes.Timestamp_ns, `["2026-01-01T00:00:00.000000007Z",null,"1969-12-31T23:59:59Z"]`})
	rec := archivetest.ForeignRecord(t, meta, columns)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &b, nil, pqarrow.NewArrowWriterProperties(pqarrow.WithDeprecatedInt96Timestamps(true)))
	if err := errors.Join(err, w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := recordingBytes(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{1767225600000000007, NoTime, -1e9}; !slices.Equal(got.Time, want) {
		t.Errorf("%v, want %v", got.Time, want)
	}
}

// TestLargeRowGroup reads a row group of any size in pieces of GroupRows, whichever
// columns are read twice.
func TestLargeRowGroup(t *testing.T) {
	const rows = 3*groupRows + 17
	meta, columns := recordingOf(archivetest.Column{"time", arrow.PrimitiveTypes.Int64, ``})
	meta[KeyTimeUnit] = "ns"
	var fields []arrow.Field
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.Name, Type: c.Kind, Nullable: c.Name == "label"})
	}
	pairs := arrow.MetadataFrom(maps.Clone(meta))
	schema := arrow.NewSchema(fields, &pairs)
	build := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i := range rows {
		build.Field(0).(*array.StringBuilder).Append([]string{"p", "q"}[i%2])
		build.Field(1).(*array.Int64Builder).Append(int64(i))
		build.Field(2).(*array.Int64Builder).Append(int64(i))
		build.Field(3).(*array.Float32Builder).Append(float32(i))
		build.Field(4).(*array.BooleanBuilder).Append(i%7 == 0)
		build.Field(5).(*array.StringBuilder).AppendNull()
	}
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(parquet.WithMaxRowGroupLength(2*rows)), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err := errors.Join(err, w.Write(build.NewRecord()), w.Close()); err != nil {
		t.Fatal(err)
	}
	in, err := newParquetFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRecordingReader("r.parquet", in)
	if err != nil {
		t.Fatal(err)
	}
	r.groups, r.target = "seq", "time"
	var c RecordingChunk
	next := 0
	for {
		err := r.Next(&c)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Rows() > groupRows {
			t.Fatalf("%d rows at a time, want at most %d", c.Rows(), groupRows)
		}
		for i := range c.Rows() {
			if n := next + i; c.Seq[i] != int64(n) || c.Values[i] != float32(n) || c.Number[i] != float64(n) || c.End[i] != (n%7 == 0) || c.Stream[i] != []string{"p", "q"}[n%2] {
				t.Fatalf("row %d is not that of the file", n)
			}
		}
		next += c.Rows()
	}
	if next != rows {
		t.Errorf("%d rows, want %d", next, rows)
	}
}
