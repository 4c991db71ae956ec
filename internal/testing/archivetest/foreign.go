package archivetest

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// Column is a column of a file as another tool might write it, its rows as JSON.
type Column = struct {
	Name string
	Kind arrow.DataType
	Rows string
}

// Foreign writes columns with metadata as other tools do: every column nullable,
// dictionaries, no compression.
func Foreign(t testing.TB, meta map[string]string, columns []Column, props ...parquet.WriterProperty) []byte {
	t.Helper()
	rec := ForeignRecord(t, meta, columns)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &b, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ForeignRecord is the record that Foreign writes.
func ForeignRecord(t testing.TB, meta map[string]string, columns []Column) arrow.Record {
	t.Helper()
	var fields []arrow.Field
	var data []arrow.Array
	rows := int64(0)
	for _, c := range columns {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.Kind, strings.NewReader(c.Rows))
		if err != nil {
			t.Fatalf("column %s: %v", c.Name, err)
		}
		fields = append(fields, arrow.Field{Name: c.Name, Type: c.Kind, Nullable: true})
		data, rows = append(data, a), int64(a.Len())
	}
	kv := arrow.MetadataFrom(meta)
	return array.NewRecord(arrow.NewSchema(fields, &kv), data, rows)
}

// Types of columns.
var (
	Text   = arrow.BinaryTypes.String
	Number = arrow.PrimitiveTypes.Float32
	List   = arrow.ListOf(Number)
	Pair   = arrow.StructOf(arrow.Field{Name: "x", Type: Number, Nullable: true}, arrow.Field{Name: "y", Type: Number, Nullable: true})
)

// SetMeta is the metadata of a data set of two classes and two channels.
func SetMeta() map[string]string {
	return map[string]string{
		"eusn.archive": "dataset", "eusn.version": "1", "eusn.problem": "F", "eusn.classes": `["x","y"]`,
		"eusn.channels": `["a","b"]`, "eusn.provenance": `{"format":"ts"}`,
	}
}

// SetColumns are the columns of this data set.
func SetColumns() []Column {
	return []Column{
		{"id", Text, `["s0","s1"]`},
		{"split", Text, `["train","test"]`},
		{"label", Text, `["y",null]`},
		{"length", arrow.PrimitiveTypes.Int32, `[2,1]`},
		{"a", List, `[[1,2],[3]]`},
		{"b", List, `[[4,5],[6]]`},
		{"comment", Text, `["columns that are not asked for", "are left alone"]`},
		{"meta", Pair, `[{"x":1,"y":2},{"x":1,"y":2}]`},
	}
}

// Place writes files into a new folder; a name may hold folders.
func Place(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// WantError requires an error whose text contains want.
func WantError(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one containing %q", err, want)
	}
}

// Zipped compresses data with gzip.
func Zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
