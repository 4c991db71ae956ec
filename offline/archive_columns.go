package offline

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// parquetFile reads columns by name from a Parquet file that may be damaged
// or hostile. It uses the library's page level, not its Arrow level, because
// that starts no goroutines (a panic in one could not be caught) and allocates
// what the pages hold, not what the metadata claims.
type parquetFile struct {
	file    io.Closer
	rd      *file.Reader
	columns map[string]int // leaf index by top-level name
	budget  int64          // values that may still be decoded
}

// maxGroupRows bounds what a row group may claim. Tools write 2^17 to 2^20.
const maxGroupRows = 1 << 24

func openParquet(path string) (*parquetFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := newParquetFile(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	p.file = f
	return p, nil
}

// newParquetFile reads the footer. A panic in it is the caller's to guard.
func newParquetFile(r parquet.ReaderAtSeeker) (*parquetFile, error) {
	// A buffered stream reads a column page by page; without it the library
	// allocates whatever size the metadata gives the column.
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	rd, err := file.NewParquetReader(r, file.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("%w: the file is truncated, damaged or no Parquet file", err)
	}
	p := &parquetFile{rd: rd, columns: make(map[string]int), budget: DefaultMaxValues}
	schema := rd.MetaData().Schema
	for i := range schema.NumColumns() {
		name := schema.Column(i).ColumnPath()[0]
		if _, twice := p.columns[name]; twice {
			return nil, fmt.Errorf("column %q: want a plain value or a list, got a structure", name)
		}
		p.columns[name] = i
	}
	return p, nil
}

// guard turns a panic of the library, which damaged pages can cause, into an
// error that names the file; other errors get the name too.
func guard(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is damaged: %v", p)
	}
	if *err != nil {
		*err = InContent(fmt.Errorf("offline: %s: %w", path, *err))
	}
}

// rowGroup is one row group of a file.
type rowGroup struct {
	in   *parquetFile
	rd   *file.RowGroupReader
	rows int
}

func (p *parquetFile) group(i int) (*rowGroup, error) {
	rd := p.rd.RowGroup(i)
	if rd.NumRows() < 0 || rd.NumRows() > maxGroupRows {
		return nil, fmt.Errorf("row group %d claims %d rows, want 0..%d: write the file with smaller row groups", i, rd.NumRows(), maxGroupRows)
	}
	return &rowGroup{in: p, rd: rd, rows: int(rd.NumRows())}, nil
}

// room refuses further columns of that many values each where the budget cannot
// hold them all: memory for all channels is reserved with the first of them.
func (g *rowGroup) room(values, columns int) error {
	if columns > 0 && int64(values) > g.in.budget/int64(columns) {
		return fmt.Errorf("%d columns of %d values: more than %d values in all: %w", columns+1, values, DefaultMaxValues, errTooLarge)
	}
	return nil
}

// column opens a column of the row group.
func (g *rowGroup) column(i int) (file.ColumnChunkReader, error) {
	pages, err := g.rd.GetColumnPageReader(i)
	if err != nil {
		return nil, fmt.Errorf("%w: write the file with zstd, snappy, gzip, brotli or no compression", err)
	}
	descr := g.in.rd.MetaData().Schema.Column(i)
	return file.NewColumnReader(descr, &checkedPages{PageReader: pages, column: descr}, memory.DefaultAllocator, g.in.rd.BufferPool()), nil
}

// typeName is what a column of a type is called, also where it is of bytes.
func typeName[V any]() string {
	var v V
	if _, ok := any(v).(parquet.ByteArray); ok {
		return "text"
	}
	return fmt.Sprintf("%T", v)
}

// levelBatch is how many values are decoded at a time.
const levelBatch = 4096

// batchReader is the part of the library's typed column readers used here.
type batchReader[V any] interface {
	ReadBatch(batchSize int64, values []V, defLevels, repLevels []int16) (total int64, read int, err error)
}

// each decodes a column, calling visit with the values of a batch (nulls left
// out) and one definition and repetition level for every entry.
func each[V any](g *rowGroup, name string, visit func(values []V, def, rep []int16) error) error {
	rd, err := g.column(g.in.columns[name])
	if err != nil {
		return fmt.Errorf("column %q: %w", name, err)
	}
	typed, ok := rd.(batchReader[V])
	if !ok {
		return fmt.Errorf("column %q: stored as %s, want %s: cast it when the file is written", name, rd.Type(), typeName[V]())
	}
	values := make([]V, levelBatch)
	def, rep := make([]int16, levelBatch), make([]int16, levelBatch)
	for rd.HasNext() {
		clear(def)
		clear(rep)
		total, read, err := typed.ReadBatch(levelBatch, values, def, rep)
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		if total == 0 {
			break
		}
		// A few bytes can claim billions of repeated values.
		if g.in.budget -= total; g.in.budget < 0 {
			return fmt.Errorf("column %q: more than %d values in all: %w", name, DefaultMaxValues, errTooLarge)
		}
		if err := visit(values[:read], def[:total], rep[:total]); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	if err := rd.Err(); err != nil {
		return fmt.Errorf("column %q: %w", name, err)
	}
	return nil
}

// flat reads a column of plain values. Nulls become null(), or an error where
// null is nil.
func flat[V, T any](g *rowGroup, name string, convert func(V) T, null func() T) ([]T, error) {
	col, ok := g.in.columns[name]
	if !ok {
		return nil, fmt.Errorf("column %q is missing", name)
	}
	descr := g.in.rd.MetaData().Schema.Column(col)
	maxDef := descr.MaxDefinitionLevel()
	if descr.MaxRepetitionLevel() != 0 || maxDef > 1 {
		return nil, fmt.Errorf("column %q: want a plain value, got a list or structure", name)
	}
	var out []T
	err := each(g, name, func(values []V, def, _ []int16) error {
		for _, d := range def {
			switch {
			case d == maxDef && len(values) > 0:
				out = append(out, convert(values[0]))
				values = values[1:]
			case d == maxDef:
				return fmt.Errorf("fewer values than levels: the file is damaged")
			case null == nil:
				return fmt.Errorf("row %d of the row group is null, want a value", len(out))
			default:
				out = append(out, null())
			}
		}
		return nil
	})
	if err == nil && len(out) != g.rows {
		err = fmt.Errorf("column %q has %d rows, the row group %d: the file is damaged", name, len(out), g.rows)
	}
	return out, err
}

// lists reads a column of lists: all values in one slice, and the length of
// each row's list. Neither lists nor values may be null.
func lists[V any](g *rowGroup, name string) (values []V, lengths []int32, err error) {
	col, ok := g.in.columns[name]
	if !ok {
		return nil, nil, fmt.Errorf("column %q is missing", name)
	}
	descr := g.in.rd.MetaData().Schema.Column(col)
	maxDef := descr.MaxDefinitionLevel()
	if descr.MaxRepetitionLevel() != 1 || maxDef > 3 {
		return nil, nil, fmt.Errorf("column %q: want a list of plain values", name)
	}
	// The level of an empty list is 0, or 1 where the list itself may be null.
	empty := int16(0)
	if g.optional(name) {
		empty = 1
	}
	err = each(g, name, func(batch []V, def, rep []int16) error {
		used := 0
		for i, d := range def {
			if rep[i] == 0 {
				lengths = append(lengths, 0)
			}
			switch {
			case len(lengths) == 0 || rep[i] > 1 || d > maxDef:
				return fmt.Errorf("impossible levels: the file is damaged")
			case d == maxDef:
				lengths[len(lengths)-1]++
				used++
			case d < empty:
				return fmt.Errorf("row %d of the row group is null, want a list", len(lengths)-1)
			case d > empty:
				return fmt.Errorf("row %d of the row group holds a null, want NaN for a missing value", len(lengths)-1)
			}
		}
		if used != len(batch) {
			return fmt.Errorf("values and levels disagree: the file is damaged")
		}
		values = append(values, batch...)
		return nil
	})
	if err == nil && len(lengths) != g.rows {
		err = fmt.Errorf("column %q has %d rows, the row group %d: the file is damaged", name, len(lengths), g.rows)
	}
	return values, lengths, err
}

// optional says whether a top-level column may be null.
func (g *rowGroup) optional(name string) bool {
	root := g.in.rd.MetaData().Schema.Root()
	i := root.FieldIndexByName(name)
	return i >= 0 && root.Field(i).RepetitionType() == parquet.Repetitions.Optional
}

// interner gives a function that makes strings of bytes, the same string for
// the same bytes: columns of names repeat few of them, often.
func interner() func(parquet.ByteArray) string {
	known := make(map[string]string)
	return func(b parquet.ByteArray) string {
		s, ok := known[string(b)]
		if !ok {
			s = string(b)
			known[s] = s
		}
		return s
	}
}

func same[T any](v T) T { return v }

// hasColumn wants a column of what it is to be, unless its name is empty.
func (p *parquetFile) hasColumn(path, name, what string) error {
	if name == "" {
		return nil
	}
	if _, ok := p.columns[name]; ok {
		return nil
	}
	var have []string
	for c := range p.columns {
		have = append(have, names.Cut(c, 40))
	}
	slices.Sort(have)
	return fmt.Errorf("offline: %s has no column %q, whose values are to be %s; it has %s", path, names.Cut(name, 60), what, strings.Join(have[:min(30, len(have))], ", "))
}

// HasColumn reports whether the Parquet file at path has a column.
func HasColumn(path, column string) bool {
	in, err := openQuietly(path)
	if err != nil {
		return false
	}
	defer in.file.Close()
	_, has := in.columns[column]
	return has
}

// openQuietly opens a file that may be damaged; its reader says what is wrong.
func openQuietly(path string) (in *parquetFile, err error) {
	defer guard(path, &err)
	return openParquet(path)
}
