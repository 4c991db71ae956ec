package imports

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// maxLine bounds the memory of a line. The longest line of the published archives is
// below 10 MiB.
const maxLine = 64 << 20

// peekSize is the number of bytes at the begin of a file that determine the form of a table.
const peekSize = 1 << 17

var errLineTooLong = fmt.Errorf("line longer than %d MiB", maxLine>>20)

// source is an input file read from front to back: hashed and counted as stored,
// decompressed if it is gzip, split into numbered lines.
type source struct {
	name   string // as given by the caller; the prefix of every message
	line   int    // number of the last line of readLine, from 1
	raw    *meter
	in     *bufio.Reader
	long   []byte // a line longer than in's buffer
	budget *int64 // values that may still be read
	file   io.Closer
}

// openSource opens a file for reading. All files of an import share budget, which counts
// down.
func openSource(ctx context.Context, path string, budget *int64, progress archive.Progress) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s is a directory, want a file", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("offline: %w", err)
	}
	s, err := newSource(ctx, path, f, st.Size(), budget, progress)
	if err != nil {
		f.Close()
		return nil, err
	}
	s.file = f
	return s, nil
}

// newSource reads from r as openSource reads from a file.
func newSource(ctx context.Context, name string, r io.Reader, size int64, budget *int64, progress archive.Progress) (*source, error) {
	s := &source{name: name, budget: budget}
	s.raw = &meter{ctx: ctx, in: r, sum: sha256.New(), size: size, what: filepath.Base(name), progress: progress}
	buffered := bufio.NewReaderSize(s.raw, peekSize)
	s.in = buffered
	magic, err := buffered.Peek(2)
	if err != nil && err != io.EOF {
		return nil, s.wrapError(err)
	}
	zipped := bytes.Equal(magic, []byte{0x1f, 0x8b})
	switch {
	case len(magic) == 0:
		return nil, s.errorf("the file is empty")
	case !zipped && strings.HasSuffix(strings.ToLower(name), ".gz"):
		return nil, s.errorf("the name ends in .gz but the content is not gzip")
	case zipped:
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, s.wrapError(err)
		}
		s.in = bufio.NewReaderSize(z, peekSize)
	}
	return s, nil
}

// readLine returns the next line without its end, or io.EOF. The line is valid until the
// following call.
func (s *source) readLine() ([]byte, error) {
	s.line++
	line, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.joinLong(line)
	}
	if err != nil && err != io.EOF {
		return nil, s.wrapError(err)
	}
	if err == io.EOF && len(line) == 0 {
		return nil, io.EOF
	}
	if s.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

func (s *source) joinLong(head []byte) ([]byte, error) {
	s.long = append(s.long[:0], head...)
	for {
		more, err := s.in.ReadSlice('\n')
		if len(s.long)+len(more) > maxLine {
			return nil, errLineTooLong
		}
		s.long = append(s.long, more...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return s.long, err
		}
	}
}

// errorf returns an error at the current line.
func (s *source) errorf(format string, args ...any) error {
	if s.line == 0 {
		return datafile.InContent(fmt.Errorf("%s: "+format, append([]any{s.name}, args...)...))
	}
	return datafile.InContent(fmt.Errorf("%s:%d: "+format, append([]any{s.name, s.line}, args...)...))
}

// wrapError explains an error of the underlying reader.
func (s *source) wrapError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return s.errorf("the compressed data ends early: the file is truncated, fetch it again")
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader):
		return s.errorf("%w: the file is damaged, fetch it again", err)
	}
	return s.errorf("%w", err)
}

// reserve counts n more values, so that a small compressed file cannot expand beyond the
// caller's memory limit.
func (s *source) reserve(n int) error {
	if *s.budget -= int64(n); *s.budget < 0 {
		return s.errorf("%w: more values than the import takes (Options.MaxValues, %d unless set)", datafile.ErrTooLarge, datafile.MaxValues)
	}
	return nil
}

// provenance reads the rest of the file and describes the whole file.
func (s *source) provenance() (archive.SourceFile, error) {
	if _, err := io.Copy(io.Discard, s.raw); err != nil {
		return archive.SourceFile{}, s.wrapError(err)
	}
	return archive.SourceFile{
		Name:   filepath.Base(s.name),
		Bytes:  s.raw.done,
		SHA256: hex.EncodeToString(s.raw.sum.Sum(nil)),
	}, nil
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
	}
}

// meter hashes and counts the data read, reports progress, and ends the read when the
// context ends.
type meter struct {
	ctx      context.Context
	in       io.Reader
	sum      hash.Hash
	done     int64
	size     int64
	what     string
	progress archive.Progress
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.in.Read(p)
	m.sum.Write(p[:n])
	m.done += int64(n)
	m.progress.Report(m.done, m.size, m.what)
	return n, err
}

// parseValue parses a number of a text file; "?" and NaN (any case) give NaN. It refuses
// infinities, numbers beyond a float32, and Go-specific numbers: 1_000 and 0x1p4.
func parseValue(field []byte) (float32, bool) {
	field = bytes.TrimSpace(field)
	if len(field) == 1 && field[0] == '?' {
		return nan32, true
	}
	v, err := strconv.ParseFloat(string(field), 32)
	if err != nil || v-v != 0 && v == v || bytes.ContainsAny(field, "_xX") {
		return 0, false
	}
	return float32(v), true
}

// clip shortens a quoted text for an error message.
func clip(b []byte) string {
	const limit = 40
	return names.Cut(string(b[:min(len(b), (limit+1)*utf8.UTFMax)]), limit)
}
