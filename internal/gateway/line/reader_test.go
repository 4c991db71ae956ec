package line

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
)

// segments delivers bytes like a connection, in segments of the given sizes; the last size
// repeats.
type segments struct {
	b     []byte
	sizes []int
}

func (s *segments) Read(buf []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(buf, s.b[:min(s.sizes[0], len(s.b))])
	s.b = s.b[n:]
	if len(s.sizes) > 1 {
		s.sizes = s.sizes[1:]
	}
	return n, nil
}

// readRows lists the rows of a connection as texts, and the error at its end. An invalid line
// is a row, too.
func readRows(t *testing.T, d formats.Decoder, b []byte, sizes ...int) (rows []string, end error) {
	t.Helper()
	r := newReader(&segments{b, sizes}, new(atomic.Int64))
	for {
		lines, err := r.readLines()
		if err != nil {
			return rows, err
		}
		var batch codec.Batch
		if d.Decode(lines, &batch) == nil {
			rows = addRows(rows, &batch)
			continue
		}
		for scan := new(formats.LineScanner); len(lines) > 0; {
			n := scan.End(lines)
			if n == 0 {
				t.Fatalf("lines without an end: %q", lines)
			}
			if d.Decode(lines[:n], &batch) != nil {
				rows = append(rows, "unreadable "+string(lines[:n]))
			}
			rows = addRows(rows, &batch)
			lines = lines[n:]
		}
	}
}

func addRows(rows []string, b *codec.Batch) []string {
	for i := range b.Rows {
		key := ""
		if len(b.Key) > 0 {
			key = b.Keys[b.Key[i]]
		}
		rows = append(rows, fmt.Sprint(key, " ", b.X[2*i], " ", b.X[2*i+1]))
	}
	return rows
}

func newDecoder(t testing.TB) formats.Decoder {
	t.Helper()
	d, err := formats.New(formats.Input{Format: formats.Influx}, codec.Schema{Channels: []string{"c0", "c1"}, NonFinite: codec.Hold})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A line feed in a text ends no line, whatever the segments, and an unfinished line is no line.
func TestSegments(t *testing.T) {
	d := newDecoder(t)
	for _, c := range []struct {
		segments string
		rows     []string
		end      error
	}{
		{"p,stream_id=a c0=0.5,c1=1,msg=\"first line\np,stream_id=forged c0=9,c1=9\nlast\"\np,stream_id=a c0=1,c1=1\n", []string{"a 0.5 1", "a 1 1"}, io.EOF},
		{"p,stream_id=a c0=0.5,c1=12.75\np,stream_id=a c0=0.5,c1=-12", []string{"a 0.5 12.75"}, errCut},
		{"p,stream_id=a c0=0.5,c1=12.75\n \r\n", []string{"a 0.5 12.75"}, io.EOF},
		{"p,stream_id=a c0=0.5,c1=12.75 176722560000000000", nil, errCut},
		{"p,stream_id=a c0=1,c1=2\np,stream_id=a c0=0.5,msg=\"" + strings.Repeat("\n", maxLine) + "\",c1=2\n", []string{"a 1 2"}, errLong},
	} {
		for _, size := range []int{1, 2, 3, 5, 8, 13, 40, 64, 100, 2 * maxLine} {
			if rows, err := readRows(t, d, []byte(c.segments), size); !slices.Equal(rows, c.rows) || err != c.end {
				t.Errorf("%.100q in segments of %d: rows %q and %v, want %q and %v", c.segments, size, rows, err, c.rows, c.end)
			}
		}
	}
}

// FuzzSegments checks that the same bytes give the same rows and the same error, in any
// segments.
func FuzzSegments(f *testing.F) {
	for _, s := range []string{
		"p,stream_id=a c0=0.5,c1=1,msg=\"first line\np,stream_id=forged c0=9,c1=9\nlast\"\np,stream_id=a c0=1,c1=1\n", "p c0=1,c1=2\nnonsense\np c0=1", "# c\n\np\\ q,t=\"x c0=1,c1=t,s=\"\\\"\n\" 5\n",
	} {
		f.Add([]byte(s), uint16(1), uint16(70), uint16(9))
	}
	f.Fuzz(func(t *testing.T, b []byte, first, second, sizes uint16) {
		d := newDecoder(t)
		want, wantEnd := readRows(t, d, b, maxLine)
		rows, end := readRows(t, d, b, 1+int(first), 1+int(second), 1+int(sizes))
		if !slices.Equal(rows, want) || end != wantEnd {
			t.Fatalf("in segments of %d, %d and %d: rows %q and %v, in one %q and %v", 1+int(first), 1+int(second), 1+int(sizes), rows, end, want, wantEnd)
		}
		if last := bytes.LastIndexByte(b, '\n') + 1; end == io.EOF && len(bytes.TrimSpace(b[last:])) > 0 {
			t.Fatalf("%q is no line, and nobody reports it", b[last:])
		}
	})
}

// A connection with an unfinished line uses little memory. Only a long line makes the buffer
// larger than bufferBytes, until the line has been returned.
func TestBufferGrows(t *testing.T) {
	var open atomic.Int64
	half := newReader(&segments{[]byte("m a=1,b="), []int{9}}, &open)
	if half.readMore(); cap(half.buf) != firstBytes {
		t.Errorf("half a line has a buffer of %d bytes, want %d", cap(half.buf), firstBytes)
	}
	long := append(bytes.Repeat([]byte("x"), maxLine-1), '\n')
	for name, b := range map[string][]byte{"a long line": long, "many lines": bytes.Repeat([]byte("m a=1,b=2\n"), 2*maxLine/10), "long lines": bytes.Repeat(long, 3)} {
		r := newReader(&segments{b, []int{1 << 20}}, &open)
		got, err := []byte(nil), error(nil)
		for lines := []byte(nil); err == nil; lines, err = r.readLines() {
			got = append(got, lines...)
		}
		if err != io.EOF || !bytes.Equal(got, b) || cap(r.buf) != bufferBytes || open.Load() != 0 {
			t.Errorf("%s: %d of %d bytes, a buffer of %d, %d long lines, %v", name, len(got), len(b), cap(r.buf), open.Load(), err)
		}
	}
}

// At most maxLong connections have a buffer for a long line. The lines of other connections are
// read meanwhile, and a place is free when its connection closes.
func TestLongLinesAreLimited(t *testing.T) {
	var open atomic.Int64
	unfinished := bytes.Repeat([]byte("x"), bufferBytes+1)
	readers := make([]*reader, maxLong+1)
	for i := range readers {
		readers[i] = newReader(&segments{unfinished, []int{1 << 20}}, &open)
		for range 4 {
			if readers[i].readMore(); len(readers[i].buf) == cap(readers[i].buf) {
				break
			}
		}
	}
	last := readers[maxLong]
	if _, err := last.readLines(); err != errRoom {
		t.Errorf("the long line after %d others: %v, want %v", maxLong, err, errRoom)
	}
	lines := bytes.Repeat([]byte("m a=1,b=2\n"), 2*maxLine/10)
	short := newReader(&segments{lines, []int{1 << 20}}, &open)
	got, err := []byte(nil), error(nil)
	for part := []byte(nil); err == nil; part, err = short.readLines() {
		got = append(got, part...)
	}
	if err != io.EOF || !bytes.Equal(got, lines) {
		t.Errorf("short lines meanwhile: %d of %d bytes, %v", len(got), len(lines), err)
	}
	for _, r := range readers {
		r.close()
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d places are taken after all connections closed, want 0", n)
	}
}
