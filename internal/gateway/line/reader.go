package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/eusn-stream/eusn-stream/codec/formats"
)

// errLong and errCut are errors about lines without an end: their values may be parts of longer
// values.
var (
	errLong = fmt.Errorf("a line has more than %d bytes: send shorter lines; the connection ends", chunkBytes)
	errCut  = errors.New("the connection ended within a line, and the line was dropped: end each line, including the last line, with a line feed")
)

// reader cuts a connection into whole lines.
type reader struct {
	source  io.Reader
	buf     []byte // bytes read and not yet returned; grows up to chunkBytes
	lineEnd int    // end of the last whole line in buf
	scan    formats.LineScanner
	err     error // error after the bytes in buf
}

func newReader(source io.Reader) *reader {
	return &reader{source: source, buf: make([]byte, 0, firstBytes)}
}

// readLines returns all available whole lines, at least one. The caller owns the bytes.
func (r *reader) readLines() ([]byte, error) {
	for r.lineEnd == 0 {
		switch {
		case r.err == nil && len(r.buf) == chunkBytes:
			return nil, errLong
		case r.err != nil && len(bytes.TrimSpace(r.buf)) > 0:
			return nil, errCut
		case r.err != nil:
			return nil, r.err
		}
		r.readMore()
	}
	lines := bytes.Clone(r.buf[:r.lineEnd])
	r.buf = r.buf[:copy(r.buf, r.buf[r.lineEnd:])]
	r.lineEnd = 0
	return lines, nil
}

// readMore reads once, and searches the new bytes for ends of lines.
func (r *reader) readMore() {
	offset := len(r.buf)
	n, err := r.source.Read(r.buf[offset:cap(r.buf)])
	r.buf, r.err = r.buf[:offset+n], err
	if len(r.buf) == cap(r.buf) && len(r.buf) < chunkBytes {
		r.buf = append(make([]byte, 0, min(2*cap(r.buf), chunkBytes)), r.buf...)
	}
	for {
		n := r.scan.End(r.buf[offset:])
		if n == 0 {
			return
		}
		offset += n
		r.lineEnd = offset
	}
}
