package exact

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// The format of Sums, with little-endian numbers:
//
//	"EUSNSUMS" version:u32 features:u32 classes:u32
//	counts, a u64 for each class
//	sums, classes x features numbers of three u64, the lowest first
//	outer products, the lower triangle row by row, in the same form
//	CRC-32C of all bytes above:u32
const (
	sumsMagic   = "EUSNSUMS"
	sumsVersion = 1
	sumsHead    = len(sumsMagic) + 12
	mostClasses = 1 << 16
)

// EncodedBytes returns the number of bytes that Encode writes.
func (s *Sums) EncodedBytes() int64 { return encodedBytes(s.features, len(s.counts)) }

func encodedBytes(features, classes int) int64 {
	return int64(sumsHead) + 8*int64(classes) + SumsBytes(features, classes) + 4
}

// Encode writes the sums.
func (s *Sums) Encode(to io.Writer) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)
	le := binary.LittleEndian
	head := le.AppendUint32(le.AppendUint32(le.AppendUint32([]byte(sumsMagic), sumsVersion), uint32(s.features)), uint32(len(s.counts)))
	for _, c := range s.counts {
		head = le.AppendUint64(head, uint64(c))
	}
	w.Write(head) // Flush returns an error
	var b [8]byte
	for _, all := range [][]uint64{s.sums, s.outer} {
		for _, v := range all {
			le.PutUint64(b[:], v)
			w.Write(b[:])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(le.AppendUint32(nil, sum.Sum32()))
	return err
}

// DecodeSums reads size bytes that Encode wrote.
func DecodeSums(from io.Reader, size int64) (*Sums, error) {
	bad := func(format string, args ...any) (*Sums, error) {
		return nil, fmt.Errorf("exact: sums: "+format, args...)
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	r := reader{bufio.NewReaderSize(from, 1<<16), sum}
	le, head := binary.LittleEndian, make([]byte, sumsHead)
	if err := r.fill(head); err != nil || string(head[:len(sumsMagic)]) != sumsMagic {
		return bad("it does not begin as sums")
	}
	if v := le.Uint32(head[len(sumsMagic):]); v != sumsVersion {
		return bad("it has version %d, and this program reads version %d: use the program that wrote it", v, sumsVersion)
	}
	f, c := le.Uint32(head[len(sumsMagic)+4:]), le.Uint32(head[len(sumsMagic)+8:])
	if f < 1 || c < 1 || f > 1<<24 || c > mostClasses || encodedBytes(int(f), int(c)) != size {
		return bad("%d features and %d classes in %d bytes", f, c, size)
	}
	s, err := NewSums(int(f), int(c))
	if err != nil {
		return nil, err
	}
	var b [8]byte
	next := func(most uint64) (uint64, error) {
		err := r.fill(b[:])
		v := le.Uint64(b[:])
		if err == nil && v > most {
			err = errors.New("a number is too large")
		}
		return v, err
	}
	for k := range s.counts {
		v, err := next(mostSamples)
		if err != nil {
			return bad("%w", err)
		}
		s.counts[k] = int(v)
	}
	for _, all := range [][]uint64{s.sums, s.outer} {
		for i := range all {
			if all[i], err = next(1<<64 - 1); err != nil {
				return bad("%w", err)
			}
		}
	}
	want := sum.Sum32()
	if err := r.fill(b[:4]); err != nil || le.Uint32(b[:4]) != want {
		return bad("they do not match their checksum: the file was damaged")
	}
	if n := s.Samples(); n >= mostSamples {
		return bad("%d samples, want fewer than %d", n, mostSamples)
	}
	return s, nil
}

// reader reads bytes and updates a checksum.
type reader struct {
	from io.Reader
	sum  hash.Hash32
}

func (r reader) fill(b []byte) error {
	if _, err := io.ReadFull(r.from, b); err != nil {
		return err
	}
	_, err := r.sum.Write(b)
	return err
}
