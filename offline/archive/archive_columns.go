package archive

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// parquetFile reads columns by name from a Parquet file that may be damaged or hostile. It uses the library's page
// level, not its Arrow level, because the page level starts no goroutines (a panic in a goroutine could not be
// caught) and allocates the size of the pages, not the size in the metadata.
type parquetFile struct {
	file    io.Closer
	rd      *file.Reader
	at      io.ReaderAt
	size    int64
	columns map[string]int  // leaf index by top-level name
	nested  map[string]bool // columns of several leaves: structures
	budget  int64           // values that may still be decoded
	pages   int64           // bytes of the pages in memory
}

// maxGroupRows bounds the claimed rows of a row group. Tools write 2^17 to 2^20.
const maxGroupRows = 1 << 24

// A small file can claim any number of equal values: a file of data has at most valuesPerByte values for each of its
// bytes, or fewValues.
const (
	valuesPerByte = 1 << 10
	fewValues     = 1 << 24
)

// maxPages bounds the pages in memory at a time: one of each column read.
const maxPages = 1 << 30

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

// newParquetFile reads the footer. The caller guards against its panics.
func newParquetFile(r parquet.ReaderAtSeeker) (*parquetFile, error) {
	// A buffered stream reads a column page by page; without it the library
	// allocates whatever size the metadata gives the column.
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	rd, err := file.NewParquetReader(r, file.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("%w: the file is truncated, damaged or no Parquet file", err)
	}
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{rd: rd, at: r, size: size, columns: make(map[string]int), nested: make(map[string]bool)}
	p.budget = min(datafile.MaxValues, max(fewValues, valuesPerByte*min(size, datafile.MaxValues)))
	columns := rd.MetaData().Schema
	for i := range columns.NumColumns() {
		name := columns.Column(i).ColumnPath()[0]
		if _, twice := p.columns[name]; twice {
			p.nested[name] = true
		}
		p.columns[name] = i
	}
	return p, nil
}

// leaf is the number of a column of plain values or lists.
func (p *parquetFile) leaf(name string) (*schema.Column, int, error) {
	i, ok := p.columns[name]
	if !ok {
		return nil, 0, fmt.Errorf("column %q is missing", name)
	}
	if p.nested[name] {
		return nil, 0, fmt.Errorf("column %q: want a plain value or a list, got a structure", name)
	}
	return p.rd.MetaData().Schema.Column(i), i, nil
}

// guard turns a panic of the library, which damaged pages can cause, into an error that names the file; other errors
// get the name, too.
func guard(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is damaged: %v", p)
	}
	if *err != nil {
		*err = datafile.InContent(fmt.Errorf("offline: %s: %w", path, *err))
	}
}

// rowGroup is a row group of a file.
type rowGroup struct {
	in    *parquetFile
	rd    *file.RowGroupReader
	total int // rows
	upTo  int // rows read so far, the next rows included
	rows  int // that are read next of each column of plain values
	open  map[string]file.ColumnChunkReader
}

// batch moves to the next rows, limit at most. It returns false after the last row.
func (g *rowGroup) batch(limit int) bool {
	g.rows = min(limit, g.total-g.upTo)
	g.upTo += g.rows
	return g.rows > 0
}

// whole selects all rows, for columns without a read row.
func (g *rowGroup) whole() { g.rows, g.upTo = g.total, g.total }

// restart selects no row, for columns without a read row.
func (g *rowGroup) restart() { g.rows, g.upTo = 0, 0 }

func (p *parquetFile) group(i int) (*rowGroup, error) {
	rd := p.rd.RowGroup(i)
	if rd.NumRows() < 0 || rd.NumRows() > maxGroupRows {
		return nil, fmt.Errorf("row group %d claims %d rows, want 0..%d: write the file with smaller row groups", i, rd.NumRows(), maxGroupRows)
	}
	g := &rowGroup{in: p, rd: rd, total: int(rd.NumRows()), open: make(map[string]file.ColumnChunkReader)}
	g.whole()
	return g, nil
}

// room refuses further columns of this number of values each if the budget cannot hold all: memory for all channels
// is reserved with the first.
func (g *rowGroup) room(values, columns int) error {
	if columns > 0 && int64(values) > g.in.budget/int64(columns) {
		return fmt.Errorf("%d columns of %d values: more than %d values in all: %w", columns+1, values, datafile.MaxValues, datafile.ErrTooLarge)
	}
	return nil
}

// column is the reader of a column, which is opened once for all batches.
func (g *rowGroup) column(name string) (file.ColumnChunkReader, error) {
	if rd := g.open[name]; rd != nil {
		return rd, nil
	}
	descr, i, err := g.in.leaf(name)
	if err != nil {
		return nil, err
	}
	pages, err := g.rd.GetColumnPageReader(i)
	if err != nil {
		return nil, fmt.Errorf("%w: write the file with zstd, snappy, gzip, brotli or no compression", err)
	}
	checked, err := g.checked(pages, i)
	if err != nil {
		return nil, err
	}
	checked.column = descr
	rd := file.NewColumnReader(descr, checked, memory.DefaultAllocator, g.in.rd.BufferPool())
	g.open[name] = rd
	return rd, nil
}

// checked returns the pages of a column, as the library finds them.
func (g *rowGroup) checked(pages file.PageReader, column int) (*checkedPages, error) {
	chunk, err := g.rd.MetaData().ColumnChunk(column)
	if err != nil {
		return nil, err
	}
	h := headers{file: g.in.at, at: chunk.DataPageOffset(), end: g.in.size, most: min(maxPages, max(fewPageBytes, pagePerByte*min(g.in.size, maxPages)))}
	if chunk.HasDictionaryPage() && chunk.DictionaryPageOffset() > 0 {
		h.at = min(h.at, chunk.DictionaryPageOffset())
	}
	return &checkedPages{PageReader: pages, headers: h, left: chunk.NumValues(), held: &g.in.pages}, nil
}

// typeName is the name of a column's type, also for columns of bytes.
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

// each decodes the next entries of a column, limit at most, calling visit with the
// values of a batch (nulls left out) and one definition and repetition level for every
// entry.
func each[V any](g *rowGroup, name string, limit int64, visit func(values []V, def, rep []int16) error) error {
	rd, err := g.column(name)
	if err != nil {
		return fmt.Errorf("column %q: %w", name, err)
	}
	typed, ok := rd.(batchReader[V])
	if !ok {
		return fmt.Errorf("column %q: stored as %s, want %s: cast it when the file is written", name, rd.Type(), typeName[V]())
	}
	size := min(levelBatch, limit)
	values := make([]V, size)
	def, rep := make([]int16, size), make([]int16, size)
	for limit > 0 && rd.HasNext() {
		clear(def)
		clear(rep)
		total, read, err := typed.ReadBatch(min(size, limit), values, def, rep)
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		if total == 0 {
			break
		}
		limit -= total
		// A few bytes can claim billions of repeated values.
		if g.in.budget -= total; g.in.budget < 0 {
			return fmt.Errorf("column %q: more values than the file may hold, which is %d for each of its bytes, and %d at most: %w", name, valuesPerByte, datafile.MaxValues, datafile.ErrTooLarge)
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

// flat reads the next rows of a column of plain values. Nulls become null(), or an error if null is nil.
func flat[V, T any](g *rowGroup, name string, convert func(V) T, null func() T) ([]T, error) {
	descr, _, err := g.in.leaf(name)
	if err != nil {
		return nil, err
	}
	maxDef := descr.MaxDefinitionLevel()
	if descr.MaxRepetitionLevel() != 0 || maxDef > 1 {
		return nil, fmt.Errorf("column %q: want a plain value, got a list or structure", name)
	}
	out := make([]T, 0, min(g.rows, levelBatch))
	err = each(g, name, int64(g.rows), func(values []V, def, _ []int16) error {
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
	if before := g.upTo - g.rows; err == nil && len(out) != g.rows {
		err = fmt.Errorf("column %q has %d rows, the row group %d: the file is damaged", name, before+len(out), g.total)
	}
	if err == nil && g.upTo == g.total && g.rows > 0 && g.open[name].HasNext() {
		err = fmt.Errorf("column %q has more than %d rows, the row group %d: the file is damaged", name, g.total, g.total)
	}
	return out, err
}

// lists reads a column of lists: all values in one slice, and the length of
// each row's list. Neither lists nor values may be null.
func lists[V any](g *rowGroup, name string) (values []V, lengths []int32, err error) {
	descr, _, err := g.in.leaf(name)
	if err != nil {
		return nil, nil, err
	}
	levels := listLevels{maxDef: descr.MaxDefinitionLevel()}
	if descr.MaxRepetitionLevel() != 1 || levels.maxDef > 3 {
		return nil, nil, fmt.Errorf("column %q: want a list of plain values", name)
	}
	if g.optional(name) {
		levels.empty = 1
	}
	err = each(g, name, math.MaxInt64, func(batch []V, def, rep []int16) error {
		values = append(values, batch...)
		return levels.addBatch(len(batch), def, rep)
	})
	if err == nil && len(levels.lengths) != g.rows {
		err = fmt.Errorf("column %q has %d rows, the row group %d: the file is damaged", name, len(levels.lengths), g.rows)
	}
	return values, levels.lengths, err
}

// listLevels computes the lengths of lists from the levels of their values.
type listLevels struct {
	lengths       []int32
	maxDef, empty int16 // levels of a value, and of an empty list: 0, or 1 if the list itself may be null
}

// addBatch adds the levels of a batch that has this number of values.
func (l *listLevels) addBatch(values int, def, rep []int16) error {
	for i, d := range def {
		if rep[i] == 0 {
			l.lengths = append(l.lengths, 0)
		}
		switch last := len(l.lengths) - 1; {
		case last < 0 || rep[i] > 1 || d > l.maxDef:
			return fmt.Errorf("impossible levels: the file is damaged")
		case d == l.maxDef:
			l.lengths[last]++
			values--
		case d < l.empty:
			return fmt.Errorf("row %d of the row group is null, want a list", last)
		case d > l.empty:
			return fmt.Errorf("row %d of the row group holds a null, want NaN for a missing value", last)
		}
	}
	if values != 0 {
		return fmt.Errorf("values and levels disagree: the file is damaged")
	}
	return nil
}

// optional reports whether a top-level column may be null.
func (g *rowGroup) optional(name string) bool {
	root := g.in.rd.MetaData().Schema.Root()
	i := root.FieldIndexByName(name)
	return i >= 0 && root.Field(i).RepetitionType() == parquet.Repetitions.Optional
}

// interner returns a function that converts bytes to strings, with the same string for the same bytes: columns of
// names repeat a few names often.
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

// hasColumn requires a column for the purpose what, unless its name is empty.
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

// openQuietly opens a file that may be damaged; its reader reports errors.
func openQuietly(path string) (in *parquetFile, err error) {
	defer guard(path, &err)
	return openParquet(path)
}
