package archive

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

// pagesMemory is the largest system memory for reading a file of some kilobytes.
const pagesMemory = 1 << 30

// FuzzPages changes the pages of recordings of other tools: without the checksums that find a change, in every
// supported encoding and compression. The result is rows or an error that names the file, in bounded memory.
func FuzzPages(f *testing.F) {
	var files [][]byte
	for _, c := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Brotli} {
		for _, page := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			for _, dictionary := range []bool{false, true} {
				files = append(files, foreignPages(f, parquet.WithCompression(c), parquet.WithDataPageVersion(page), parquet.WithDictionaryDefault(dictionary)))
			}
		}
	}
	files = append(files, foreignPages(f, parquet.WithDictionaryDefault(false), parquet.WithEncodingFor("seq", parquet.Encodings.DeltaBinaryPacked), parquet.WithEncodingFor("stream", parquet.Encodings.DeltaByteArray), parquet.WithEncodingFor("label", parquet.Encodings.DeltaLengthByteArray)))
	for i := range files {
		f.Add(byte(i), uint16(4), []byte{}, uint16(0), []byte{})
		f.Add(byte(i), uint16(8), []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, uint16(300), []byte{0x80, 0x80, 0x80, 0x80, 0x01})
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	f.Fuzz(func(t *testing.T, kind byte, at uint16, one []byte, to uint16, other []byte) {
		data := bytes.Clone(files[int(kind)%len(files)])
		copy(data[int(at)%len(data):], one)
		copy(data[int(to)%len(data):], other)
		err := readRows(data)
		if err != nil && !strings.HasPrefix(err.Error(), "offline: a.parquet: ") {
			t.Errorf("the error does not name the file: %v", err)
		}
		var content *datafile.ContentError
		if err != nil && !errors.As(err, &content) && !errors.Is(err, datafile.ErrTooLarge) {
			t.Errorf("the error is not of the content: %v", err)
		}
		var now runtime.MemStats
		if runtime.ReadMemStats(&now); now.Sys > before.Sys+pagesMemory {
			t.Errorf("a file of %d bytes has taken %d MB", len(data), (now.Sys-before.Sys)>>20)
		}
	})
}

// readRows reads a recording and keeps nothing.
func readRows(data []byte) (err error) {
	r, err := func() (r *RecordingReader, err error) {
		defer guard("a.parquet", &err)
		in, err := newParquetFile(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return newRecordingReader("a.parquet", in)
	}()
	var c RecordingChunk
	for err == nil {
		err = r.Next(&c)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// foreignPages is a recording with all columns, of two row groups, in the form of another tool.
func foreignPages(t testing.TB, o ...parquet.WriterProperty) []byte {
	t.Helper()
	const rows = 40
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
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(append(o, parquet.WithMaxRowGroupLength(rows/2))...), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err := errors.Join(err, w.Write(build.NewRecord()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
