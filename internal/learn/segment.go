package learn

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

const (
	segmentMagic   = "EUSNLERN"
	segmentVersion = 1
	segmentHead    = len(segmentMagic) + 8
	// longestEntry bounds the JSON of a sequence: a stream name is at most a key of NATS, with up
	// to six JSON bytes per byte.
	longestEntry = 1 << 20
	mostFeatures = 1 << 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a sequence with stored features.
type Entry struct {
	Stream   string       `json:"stream"`
	In       uint64       `json:"in"`     // input message that caused the prediction
	Stored   int64        `json:"stored"` // storage time of this message, ns
	Seq      uint64       `json:"seq"`    // of the prediction
	Row      uint32       `json:"row"`
	Flags    outcome.Flag `json:"flags"`
	Before   Place        `json:"before"` // last sample of the stream before the sequence; zero: unknown
	Last     Place        `json:"last"`
	Samples  int64        `json:"samples"`
	Rows     int64        `json:"rows"` // after the front end
	Earliest int64        `json:"earliest"`
	Latest   int64        `json:"latest"` // sample times; codec.NoTime: a sample has no time
	// Carried: the features came with the prediction. Before is unknown.
	Carried bool `json:"carried,omitempty"`
}

// Place is the position of a sample in its stream.
type Place struct {
	In  uint64 `json:"in"`
	Seq uint64 `json:"seq"`
	Row uint32 `json:"row"`
}

// key identifies a sequence.
type key struct {
	stream string
	in     uint64
	predictionID
}

func keyOf(e *Entry) key { return key{e.Stream, e.In, predictionID{e.Seq, e.Row}} }

func keyOfSequence(q *replay.Sequence) key {
	return key{q.Stream, q.In, predictionID{q.Seq, q.Row}}
}

func entryOf(q *replay.Sequence) Entry {
	return Entry{
		Stream: q.Stream, In: q.In, Stored: q.Stored, Seq: q.Seq, Row: q.Row, Flags: q.Flags, Before: Place(q.Before), Last: Place(q.Last),
		Samples: q.Samples, Rows: q.Rows, Earliest: q.Earliest, Latest: q.Latest,
	}
}

// segmentWriter writes a segment to a temporary file.
type segmentWriter struct {
	path    string // final path
	file    *os.File
	w       *bufio.Writer
	size    int64
	entries []storedEntry
	keys    map[key]bool // of the entries
	buf     []byte
}

// storedEntry is an entry and the position of its features.
type storedEntry struct {
	Entry
	segment string
	offset  int64 // of the JSON's first byte
	length  int   // of the JSON
}

func newSegment(path string, features int) (*segmentWriter, error) {
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	w := &segmentWriter{path: path, file: f, w: bufio.NewWriterSize(f, 1<<20), keys: map[key]bool{}}
	le := binary.LittleEndian
	return w, w.write(le.AppendUint32(le.AppendUint32([]byte(segmentMagic), segmentVersion), uint32(features)))
}

func (w *segmentWriter) write(b []byte) error {
	n, err := w.w.Write(b)
	w.size += int64(n)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	return nil
}

func (w *segmentWriter) writeEntry(e Entry, features []float32) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	le := binary.LittleEndian
	b := append(le.AppendUint32(w.buf[:0], uint32(len(text))), text...)
	for _, x := range features {
		b = le.AppendUint32(b, math.Float32bits(x))
	}
	b = le.AppendUint32(b, crc32.Checksum(b[4:], castagnoli))
	w.buf = b
	w.entries, w.keys[keyOf(&e)] = append(w.entries, storedEntry{e, w.path, w.size + 4, len(text)}), true
	return w.write(b)
}

// close renames the segment after it is on the disk.
func (w *segmentWriter) close() error {
	if err := w.w.Flush(); err != nil {
		w.abort()
		return fmt.Errorf("learn: %w", err)
	}
	if err := durable.Commit(w.file, w.path, 0o600); err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	return nil
}

// abort discards the segment.
func (w *segmentWriter) abort() {
	w.file.Close()
	os.Remove(w.path + ".tmp")
}

// readSegment lists the entries of a segment, without features.
func readSegment(path string, r io.ReaderAt, size int64, features int) (all []storedEntry, err error) {
	bad := func(format string, args ...any) ([]storedEntry, error) {
		return nil, fmt.Errorf("learn: %s: %s: %w; remove the file, then run learn --whole, which recomputes the features from the log", path, fmt.Sprintf(format, args...), ErrDamaged)
	}
	le, head := binary.LittleEndian, make([]byte, segmentHead)
	if _, err := r.ReadAt(head, 0); err != nil || string(head[:len(segmentMagic)]) != segmentMagic {
		return bad("not a segment of features")
	}
	if v := le.Uint32(head[len(segmentMagic):]); v != segmentVersion {
		return nil, fmt.Errorf("learn: %s: version %d, but this program reads version %d: use the program that wrote the file", path, v, segmentVersion)
	}
	if n := le.Uint32(head[len(segmentMagic)+4:]); n != uint32(features) {
		return bad("it has %d features of each sequence, want %d", n, features)
	}
	buf := make([]byte, 1024)
	for at := int64(segmentHead); at < size; {
		var length [4]byte
		if _, err := r.ReadAt(length[:], at); err != nil {
			return bad("it ends at byte %d, within a sequence", size)
		}
		n := int64(le.Uint32(length[:]))
		end := at + 4 + n + 4*int64(features) + 4
		if n > longestEntry || end > size {
			return bad("the sequence at byte %d is longer than the rest of the file", at)
		}
		if int64(len(buf)) < n {
			buf = make([]byte, n)
		}
		var e Entry
		if _, err := r.ReadAt(buf[:n], at+4); err != nil {
			return bad("%v", err)
		}
		if err := json.Unmarshal(buf[:n], &e); err != nil {
			return bad("the sequence at byte %d: %v", at, err)
		}
		all = append(all, storedEntry{e, path, at + 4, int(n)})
		at = end
	}
	return all, nil
}

// readFeatures reads the features of a sequence.
func readFeatures(r io.ReaderAt, s *storedEntry, dst []float32) error {
	le, b := binary.LittleEndian, make([]byte, s.length+4*len(dst)+4)
	if _, err := r.ReadAt(b, s.offset); err != nil {
		return fmt.Errorf("learn: %s: %w", s.segment, err)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != le.Uint32(b[len(body):]) {
		return fmt.Errorf("learn: %s: the features of a sequence of stream %q do not match their checksum: %w; remove the file, then run learn --whole, which recomputes the features from the log", s.segment, s.Stream, ErrDamaged)
	}
	for i := range dst {
		dst[i] = math.Float32frombits(le.Uint32(body[s.length+4*i:]))
	}
	return nil
}
