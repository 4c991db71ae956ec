package offline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// recordingOf has the times of one stream.
func recordingOf(times foreignColumn) (map[string]string, []foreignColumn) {
	meta := map[string]string{keyArchive: layoutRecording, keyVersion: "1", keyProblem: "R", keyChannels: `["a"]`, keyProvenance: `{}`}
	return meta, []foreignColumn{
		{"stream", text, `["p","p","q"]`}, {"seq", arrow.PrimitiveTypes.Int64, `[1,2,1]`}, times,
		{"a", number, `[1,2,3]`}, {"end", arrow.FixedWidthTypes.Boolean, `[false,true,false]`}, {"label", text, `[null,"x",null]`},
	}
}

// TestTimeUnits reads times of every unit, as numbers and as timestamps that were cast
// from another unit than they say.
func TestTimeUnits(t *testing.T) {
	const day = 1767225600 // 2026-01-01, s
	for unit, c := range map[string]struct{ numbers, cast string }{
		"s":  {`[1767225600,null,1767225601]`, `[1767225600,null,1767225601]`},
		"ms": {`[1767225600000,null,1767225601000]`, `[1767225600000,null,1767225601000]`},
		"us": {`[1767225600000000,null,1767225601000000]`, `[1767225600000000,null,1767225601000000]`},
		"ns": {`[1767225600000000000,null,1767225601000000000]`, `[1767225600000000000,null,1767225601000000000]`},
	} {
		for _, column := range []foreignColumn{{"time", arrow.PrimitiveTypes.Int64, c.numbers}, {"time", arrow.FixedWidthTypes.Timestamp_ns, c.cast}} {
			meta, columns := recordingOf(column)
			meta[keyTimeUnit] = unit
			got, err := recordingBytes(foreign(t, meta, columns))
			if err != nil {
				t.Fatalf("%s: %v", unit, err)
			}
			if want := []int64{day * 1e9, NoTime, (day + 1) * 1e9}; !slices.Equal(got.Time, want) {
				t.Errorf("%s: %v, want %v", unit, got.Time, want)
			}
		}
	}
	meta, columns := recordingOf(foreignColumn{"time", arrow.PrimitiveTypes.Int64, `[1,2,3]`})
	meta[keyTimeUnit] = "hours"
	_, err := recordingBytes(foreign(t, meta, columns))
	wantError(t, err, `key eusn.time_unit is "hours", want one of`)
	meta[keyTimeUnit] = "s"
	columns[2].rows = `[9223372037,2,3]`
	_, err = recordingBytes(foreign(t, meta, columns))
	wantError(t, err, "does not fit into 64-bit nanoseconds")
}

// TestInt96Times reads the times of older writers.
func TestInt96Times(t *testing.T) {
	meta, columns := recordingOf(foreignColumn{"time", arrow.FixedWidthTypes.Timestamp_ns, `["2026-01-01T00:00:00.000000007Z",null,"1969-12-31T23:59:59Z"]`})
	rec := foreignRecord(t, meta, columns)
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
	meta, columns := recordingOf(foreignColumn{"time", arrow.PrimitiveTypes.Int64, ``})
	meta[keyTimeUnit] = "ns"
	var fields []arrow.Field
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.kind, Nullable: c.name == "label"})
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
			if n := next + i; c.Seq[i] != int64(n) || c.Values[i] != float32(n) || c.number[i] != float64(n) || c.End[i] != (n%7 == 0) || c.Stream[i] != []string{"p", "q"}[n%2] {
				t.Fatalf("row %d is not that of the file", n)
			}
		}
		next += c.Rows()
	}
	if next != rows {
		t.Errorf("%d rows, want %d", next, rows)
	}
}

// TestImportTimeUnit: the first number of a CSV recording decides whether a unit must
// be given, and the archive has nanoseconds, also those of 1970 that were meant.
func TestImportTimeUnit(t *testing.T) {
	for _, c := range []struct {
		times, unit string
		want        []int64
		refused     string
	}{
		{"1767225600,1767225601", "", nil, "r.csv:2: time: the first is 1767225600, which looks like s since 1970 (2026-01-01T00:00:00Z); specify the unit"},
		{",1767225600000", "", nil, "looks like ms since 1970 (2026-01-01T00:00:00Z)"},
		{"1767225600000000,7", "", nil, "looks like us since 1970"},
		{"1767225600,1767225601", "s", []int64{1767225600e9, 1767225601e9}, ""},
		{"1767225600000,1767225600001", "ms", []int64{1767225600e9, 1767225600e9 + 1e6}, ""},
		{"1767225600,1767225601", "ns", []int64{1767225600, 1767225601}, ""},
		{"1767225600000000000,1767225600000000001", "", []int64{1767225600e9, 1767225600e9 + 1}, ""},
		{"0,1767225600", "", []int64{0, 1767225600}, ""}, // since the start of a device
		{"2026-01-01T00:00:00Z,1767225601", "s", []int64{1767225600e9, 1767225601e9}, ""},
		{"9223372037,1", "s", nil, "out of the range"},
	} {
		first, second, _ := strings.Cut(c.times, ",")
		dir := place(t, map[string]string{"r.csv": "stream,time,x\na," + first + ",1\na," + second + ",2\n"})
		out := filepath.Join(dir, "r.parquet")
		_, err := ImportRecording(context.Background(), RecordingImport{CSV: filepath.Join(dir, "r.csv"), Out: out, TimeUnit: c.unit}, nil)
		if c.refused != "" {
			wantError(t, err, c.refused)
			continue
		}
		if err != nil {
			t.Errorf("%s in %q: %v", c.times, c.unit, err)
			continue
		}
		r, err := ReadRecording(out)
		if err != nil {
			t.Fatal(err)
		}
		var chunk RecordingChunk
		if err := errors.Join(r.Next(&chunk), r.Close()); err != nil || !slices.Equal(chunk.Time, c.want) {
			t.Errorf("%s in %q: %v, %v, want %v", c.times, c.unit, chunk.Time, err, c.want)
		}
	}
}
