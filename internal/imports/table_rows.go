package imports

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// rowReader reads the rows of a table.
type rowReader interface {
	header() []string                        // names of the columns; nil: none
	peekRows() [][][]byte                    // the first rows, which readRow returns later
	readRow() ([][]byte, error)              // valid until the following call; io.EOF after the last
	errorf(string, ...any) error             // an error at the current row
	finishRead() (archive.SourceFile, error) // reads the rest, and describes the file
	form() (d dialect, isText bool)          // form of a text file
	close()
}

// textRows reads the rows of a text file.
type textRows struct {
	src    *source
	d      dialect
	names  []string
	first  [][][]byte
	fields [][]byte
	width  int
	cut    bool // the first line is longer than peekSize
	latin  bool // the header is not UTF-8, and read as Latin-1
}

// decodeLatin converts Latin-1 to UTF-8.
func decodeLatin(line []byte) []byte {
	text := make([]rune, len(line))
	for i, b := range line {
		text[i] = rune(b)
	}
	return []byte(string(text))
}

// readTextRows finds the form of a text file, and reads its header.
func readTextRows(src *source, t *Table) (*textRows, error) {
	lines := src.peekLines()
	if len(lines) > 0 && (bytes.HasPrefix(lines[0], []byte("\xff\xfe")) || bytes.HasPrefix(lines[0], []byte("\xfe\xff"))) {
		return nil, src.errorf("the file is UTF-16: want UTF-8, as spreadsheet programs save with CSV UTF-8")
	}
	r := &textRows{src: src, d: findDialect(lines, t), cut: len(lines) == 1 && len(lines[0]) >= peekSize-3}
	for i, line := range lines {
		if fields, err := r.d.split(bytes.Clone(line), nil); err == nil && (i > 0 || !r.d.header) {
			r.first = append(r.first, fields)
		}
	}
	if !r.d.header {
		if len(lines) == 0 {
			return nil, src.errorf("the file is empty, want a header line")
		}
		return r, nil
	}
	return r, r.readHeader(len(lines) > 0)
}

// readHeader reads the names of the columns; skip: after empty lines.
func (r *textRows) readHeader(skip bool) error {
	line, err := r.src.readLine()
	for err == nil && len(bytes.TrimSpace(line)) == 0 && skip {
		line, err = r.src.readLine()
	}
	if err != nil {
		return err
	}
	if !utf8.Valid(line) {
		r.latin, line = true, decodeLatin(line)
	}
	if r.fields, err = r.d.split(line, nil); err != nil {
		return r.src.errorf("%w", err)
	}
	r.width = len(r.fields)
	for _, f := range r.fields {
		r.names = append(r.names, strings.TrimSpace(string(f)))
	}
	return nil
}

func (r *textRows) header() []string                        { return r.names }
func (r *textRows) peekRows() [][][]byte                    { return r.first }
func (r *textRows) errorf(f string, a ...any) error         { return r.src.errorf(f, a...) }
func (r *textRows) form() (dialect, bool)                   { return r.d, true }
func (r *textRows) finishRead() (archive.SourceFile, error) { return r.src.provenance() }
func (r *textRows) close()                                  { r.src.close() }

func (r *textRows) readRow() ([][]byte, error) {
	for {
		line, err := r.src.readLine()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if r.latin && !utf8.Valid(line) {
			line = decodeLatin(line)
		}
		if r.fields, err = r.d.split(line, r.fields[:0]); err != nil {
			return nil, r.src.errorf("%w", err)
		}
		if r.width == 0 {
			r.width = len(r.fields)
		}
		if len(r.fields) != r.width {
			return nil, r.src.errorf("the line has %d fields, the %s %d", len(r.fields), map[bool]string{true: "header", false: "first line"}[r.d.header], r.width)
		}
		return r.fields, nil
	}
}
