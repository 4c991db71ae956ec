package imports

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// npzRows reads the arrays of an NPZ file as the columns of a table, without holding the
// arrays in memory. Arrays with one dimension, or with a dimension of 1, are a column with
// the array's name; an array with k columns is the columns NAME_0 to NAME_(k-1). Single
// values are left out.
//
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
type npzRows struct {
	name    string
	file    *os.File // nil: in memory
	ctx     context.Context
	arrays  []*npyArray
	columns []string
	fields  [][]byte
	first   [][][]byte
	row     int
	reopen  func() ([]*npyArray, error)
	report  archive.Progress
}

// npyArray is an array of numbers that is read from front to back.
type npyArray struct {
	name    string
	kind    byte // f, i, u or b
	size    int  // bytes of a number
	order   binary.ByteOrder
	rows    int
	columns int
	in      *bufio.Reader
	entry   io.Closer
	buf     [8]byte
}

// Limits of an NPZ file.
const (
	mostArrays    = 4096
	mostNPYHeader = 1 << 16
)

func openNPZ(ctx context.Context, path string, progress archive.Progress) (rowReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory, want a file", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("offline: %w", err)
	}
	r, err := readNPZ(ctx, path, f, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	r.file, r.report = f, progress
	return r, nil
}

// readNPZ opens the arrays of an NPZ file.
func readNPZ(ctx context.Context, name string, in io.ReaderAt, size int64) (*npzRows, error) {
	r := &npzRows{name: name, ctx: ctx}
	z, err := zip.NewReader(in, size)
	if err != nil {
		return nil, r.errorf("%w: want an NPZ file", err)
	}
	r.reopen = func() ([]*npyArray, error) { return r.openArrays(z) }
	if r.arrays, err = r.reopen(); err != nil {
		return nil, err
	}
	for _, a := range r.arrays {
		for k := range a.columns {
			column := a.name
			if a.columns > 1 {
				column = fmt.Sprintf("%s_%d", a.name, k)
			}
			r.columns = append(r.columns, column)
		}
	}
	const rows = 100
	for range rows {
		row, err := r.readRow()
		if err == io.EOF {
			break
		}
		if err != nil {
			closeArrays(r.arrays)
			return nil, err
		}
		var kept [][]byte
		for _, field := range row {
			kept = append(kept, bytes.Clone(field))
		}
		r.first = append(r.first, kept)
	}
	closeArrays(r.arrays)
	r.row = 0
	r.arrays, err = r.reopen()
	return r, err
}

func closeArrays(all []*npyArray) {
	for _, a := range all {
		a.entry.Close()
	}
}

// openArrays opens all arrays of a file.
func (r *npzRows) openArrays(z *zip.Reader) (all []*npyArray, err error) {
	if len(z.File) > mostArrays {
		return nil, r.errorf("%d arrays, want at most %d", len(z.File), mostArrays)
	}
	columns := 0
	for _, f := range z.File {
		name, is := strings.CutSuffix(f.Name, ".npy")
		if !is {
			continue
		}
		if err = names.Check("array", name); err != nil || name == "" {
			err = r.errorf("array name: want one, %w", cmpError(err))
			break
		}
		var a *npyArray
		if a, err = openNPY(name, f); err != nil {
			err = r.errorf("array %q: %w", names.Cut(name, 40), err)
			break
		}
		if a.rows <= 1 && a.columns == 1 {
			a.entry.Close()
			continue
		}
		all = append(all, a)
		if columns += a.columns; columns > datafile.MaxChannels {
			err = r.errorf("more than %d columns", datafile.MaxChannels)
			break
		}
		if a.rows != all[0].rows {
			err = r.errorf("array %q has %d rows, array %q has %d: want equal numbers", names.Cut(a.name, 40), a.rows, names.Cut(all[0].name, 40), all[0].rows)
			break
		}
	}
	if err == nil && len(all) == 0 {
		err = r.errorf("no array with samples")
	}
	if err != nil {
		closeArrays(all)
		return nil, err
	}
	return all, nil
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("the name is empty")
	}
	return err
}

// npyHeader matches the description of an array.
var npyHeader = regexp.MustCompile(`^\{'descr': '([<>|=])([a-zA-Z])(\d+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\),? *\} *\n?$`)

// openNPY reads the header of an array.
func openNPY(name string, f *zip.File) (*npyArray, error) {
	entry, err := f.Open()
	if err != nil {
		return nil, err
	}
	a := &npyArray{name: name, in: bufio.NewReaderSize(entry, 1<<15), entry: entry}
	if err := a.readHeader(); err != nil {
		entry.Close()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("the array ends early")
		}
		return nil, err
	}
	return a, nil
}

func (a *npyArray) readHeader() error {
	head := make([]byte, 10)
	if _, err := io.ReadFull(a.in, head); err != nil {
		return err
	}
	if !bytes.HasPrefix(head, []byte("\x93NUMPY")) {
		return errors.New("no NPY header")
	}
	length := int(binary.LittleEndian.Uint16(head[8:]))
	if version := head[6]; version > 1 {
		more := make([]byte, 2)
		if _, err := io.ReadFull(a.in, more); err != nil {
			return err
		}
		length |= int(binary.LittleEndian.Uint16(more)) << 16
	}
	if length > mostNPYHeader {
		return fmt.Errorf("a header of %d bytes, want at most %d", length, mostNPYHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(a.in, text); err != nil {
		return err
	}
	m := npyHeader.FindSubmatch(bytes.TrimRight(text, " \n"))
	if m == nil {
		return fmt.Errorf("header %q: want an array of numbers", clip(text))
	}
	return a.useHeader(string(m[1]), string(m[2])+string(m[3]), string(m[4]), string(m[5]))
}

// numberTypes are the accepted types of numbers.
const numberTypes = " f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 "

func (a *npyArray) useHeader(order, kind, fortran, shape string) error {
	if !strings.Contains(numberTypes, " "+kind+" ") {
		return fmt.Errorf("numbers of type %s: want one of%s", kind, numberTypes)
	}
	a.kind, a.size, a.order = kind[0], int(kind[1]-'0'), binary.LittleEndian
	if order == ">" {
		a.order = binary.BigEndian
	}
	var dims []int
	for part := range strings.SplitSeq(shape, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil || n > math.MaxInt32 {
			return fmt.Errorf("shape (%s): want at most %d in each dimension", shape, math.MaxInt32)
		}
		if n == 0 {
			return fmt.Errorf("shape (%s): the array is empty", shape)
		}
		if n != 1 {
			dims = append(dims, n)
		}
	}
	a.rows, a.columns = 1, 1
	switch len(dims) {
	case 0:
	case 1:
		a.rows = dims[0]
	case 2:
		a.rows, a.columns = dims[0], dims[1]
		if fortran == "True" {
			return errors.New("the array is in Fortran order: store it with numpy.ascontiguousarray")
		}
	default:
		return fmt.Errorf("shape (%s): want one or two dimensions", shape)
	}
	if a.columns > datafile.MaxChannels {
		return fmt.Errorf("shape (%s): %d columns, want at most %d; a row of the array is a sample", shape, a.columns, datafile.MaxChannels)
	}
	return nil
}

// appendNumber appends the next number as text.
func (a *npyArray) appendNumber(field []byte) ([]byte, error) {
	b := a.buf[:a.size]
	if _, err := io.ReadFull(a.in, b); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = errors.New("the array ends early")
		}
		return field, err
	}
	var bits uint64
	switch a.size {
	case 1:
		bits = uint64(b[0])
	case 2:
		bits = uint64(a.order.Uint16(b))
	case 4:
		bits = uint64(a.order.Uint32(b))
	case 8:
		bits = a.order.Uint64(b)
	}
	shift := 64 - 8*a.size
	switch {
	case a.kind == 'f' && a.size == 8:
		return strconv.AppendFloat(field, math.Float64frombits(bits), 'g', -1, 64), nil
	case a.kind == 'f' && a.size == 4:
		return strconv.AppendFloat(field, float64(math.Float32frombits(uint32(bits))), 'g', -1, 32), nil
	case a.kind == 'f':
		return strconv.AppendFloat(field, halfFloat(uint16(bits)), 'g', -1, 64), nil
	case a.kind == 'i':
		return strconv.AppendInt(field, int64(bits)<<shift>>shift, 10), nil
	}
	return strconv.AppendUint(field, bits, 10), nil
}

// halfFloat converts a number of 16 bits.
func halfFloat(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	v := math.Ldexp(1024+fraction, exponent-25)
	switch {
	case exponent == 31 && fraction == 0:
		v = math.Inf(1)
	case exponent == 31:
		return math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -24)
	}
	if bits>>15 == 1 {
		return -v
	}
	return v
}

func (r *npzRows) header() []string      { return r.columns }
func (r *npzRows) peekRows() [][][]byte  { return r.first }
func (r *npzRows) form() (dialect, bool) { return dialect{decimal: '.'}, false }
func (r *npzRows) errorf(format string, args ...any) error {
	place := r.name
	if r.row > 0 {
		place += fmt.Sprintf(":%d", r.row)
	}
	return datafile.InContent(fmt.Errorf("%s: "+format, append([]any{place}, args...)...))
}

func (r *npzRows) readRow() ([][]byte, error) {
	if r.row == r.arrays[0].rows {
		return nil, io.EOF
	}
	if r.row%chunkRows == 0 {
		if err := context.Cause(r.ctx); err != nil {
			return nil, err
		}
	}
	r.row++
	if r.fields == nil {
		r.fields = make([][]byte, len(r.columns))
	}
	at := 0
	for _, a := range r.arrays {
		for range a.columns {
			var err error
			if r.fields[at], err = a.appendNumber(r.fields[at][:0]); err != nil {
				return nil, r.errorf("array %q: %w", names.Cut(a.name, 40), err)
			}
			at++
		}
	}
	return r.fields, nil
}

// finishRead hashes the file.
func (r *npzRows) finishRead() (archive.SourceFile, error) {
	unlimited := int64(math.MaxInt64)
	src, err := openSource(r.ctx, r.name, &unlimited, r.report)
	if err != nil {
		return archive.SourceFile{}, err
	}
	defer src.close()
	return src.provenance()
}

func (r *npzRows) close() {
	closeArrays(r.arrays)
	if r.file != nil {
		r.file.Close()
	}
}
