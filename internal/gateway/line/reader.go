package line

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/eusn-stream/eusn-stream/codec/formats"
)

// errLong and errCut are lines of which the end is not there: their values may be parts
// of longer ones.
var (
	errLong = fmt.Errorf("a line has more than %d bytes: send shorter lines; the connection ends", chunkBytes)
	errCut  = errors.New("the connection ended within a line, which is not used: end each line, also the last one, with a line feed")
)

// reader cuts a connection into whole lines.
type reader struct {
	from io.Reader
	buf  []byte // what is read and not yet returned; grows up to chunkBytes
	end  int    // of the last whole line in buf
	scan formats.LineScanner
	err  error // after what is in buf
}

func newReader(from io.Reader) *reader {
	return &reader{from: from, buf: make([]byte, 0, firstBytes)}
}

// next returns the next line, and those after it that are there already. The caller owns
// the bytes.
func (r *reader) next() ([]byte, error) {
	for r.end == 0 {
		switch {
		case r.err == nil && len(r.buf) == chunkBytes:
			return nil, errLong
		case r.err != nil && len(bytes.TrimSpace(r.buf)) > 0:
			return nil, errCut
		case r.err != nil:
			return nil, r.err
		}
		r.read()
	}
	lines := bytes.Clone(r.buf[:r.end])
	r.buf = r.buf[:copy(r.buf, r.buf[r.end:])]
	r.end = 0
	return lines, nil
}

// read reads once, and looks for the ends of lines in what is new.
func (r *reader) read() {
	at := len(r.buf)
	n, err := r.from.Read(r.buf[at:cap(r.buf)])
	r.buf, r.err = r.buf[:at+n], err
	if len(r.buf) == cap(r.buf) && len(r.buf) < chunkBytes {
		r.buf = append(make([]byte, 0, min(2*cap(r.buf), chunkBytes)), r.buf...)
	}
	for {
		n := r.scan.End(r.buf[at:])
		if n == 0 {
			return
		}
		at += n
		r.end = at
	}
}
