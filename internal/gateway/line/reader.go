package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/formats"
)

// errLong, errRoom and errCut are errors about lines without an end: their values may be parts of
// longer values.
var (
	errLong = fmt.Errorf("a line has more than %d bytes: send shorter lines; the connection ends", maxLine)
	errRoom = fmt.Errorf("a line has more than %d bytes, and %d connections send such lines already: send shorter lines, or fewer at a time; the connection ends", bufferBytes, maxLong)
	errCut  = errors.New("the connection ended within a line, and the line was dropped: end each line, including the last line, with a line feed")
)

// reader cuts a connection into whole lines.
type reader struct {
	source  io.Reader
	buf     []byte // bytes read and not yet returned; grows up to bufferBytes, for a long line up to maxLine
	lineEnd int    // end of the last whole line in buf
	scan    formats.LineScanner
	err     error         // error after the bytes in buf
	long    *atomic.Int64 // readers of the listener with a buffer above bufferBytes
}

func newReader(source io.Reader, long *atomic.Int64) *reader {
	return &reader{source: source, buf: make([]byte, 0, firstBytes), long: long}
}

// close releases the reader's place among the readers of long lines.
func (r *reader) close() {
	if cap(r.buf) > bufferBytes {
		r.long.Add(-1)
		r.buf = nil
	}
}

// readLines returns all available whole lines, at least one. The caller owns the bytes.
func (r *reader) readLines() ([]byte, error) {
	for r.lineEnd == 0 {
		switch {
		case r.err == nil && len(r.buf) == maxLine:
			return nil, errLong
		case r.err == nil && len(r.buf) == cap(r.buf):
			return nil, errRoom
		case r.err != nil && len(bytes.TrimSpace(r.buf)) > 0:
			return nil, errCut
		case r.err != nil:
			return nil, r.err
		}
		r.readMore()
	}
	lines := bytes.Clone(r.buf[:r.lineEnd])
	rest := r.buf[r.lineEnd:]
	if cap(r.buf) > bufferBytes && len(rest) < bufferBytes {
		r.close()
		r.buf = make([]byte, 0, bufferBytes)
	}
	r.buf = append(r.buf[:0], rest...)
	r.lineEnd = 0
	return lines, nil
}

// readMore reads once, and searches the new bytes for ends of lines.
func (r *reader) readMore() {
	offset := len(r.buf)
	n, err := r.source.Read(r.buf[offset:cap(r.buf)])
	r.buf, r.err = r.buf[:offset+n], err
	for n := r.scan.End(r.buf[offset:]); n > 0; n = r.scan.End(r.buf[offset:]) {
		offset += n
		r.lineEnd = offset
	}
	if len(r.buf) == cap(r.buf) {
		r.grow()
	}
}

// grow doubles a full buffer. Only a buffer without a whole line grows above bufferBytes, and
// at most maxLong buffers of a listener do, so that the memory of all connections is bounded.
func (r *reader) grow() {
	size := min(2*cap(r.buf), maxLine)
	if size > bufferBytes && cap(r.buf) <= bufferBytes {
		if r.lineEnd > 0 {
			return
		}
		if r.long.Add(1) > maxLong {
			r.long.Add(-1)
			return
		}
	}
	r.buf = append(make([]byte, 0, size), r.buf...)
}
