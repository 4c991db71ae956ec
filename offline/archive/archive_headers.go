package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// The library (arrow v17) allocates the size in a page's header, up to 2 GiB compressed and as much inflated, before
// it reads the page. And zstd and snappy inflate beyond the size in the header, gzip and brotli beyond a size of
// zero. So the headers are checked here first, one page ahead of the library, and pages inflate into the memory of
// the size in the header.

// A page inflated takes at most pagePerByte bytes for each of the file's bytes, or
// fewPageBytes.
const (
	pagePerByte  = 1 << 10
	fewPageBytes = 1 << 25
)

func init() {
	compress.RegisterCodec(compress.Codecs.Zstd, cappedZstd{codecOf(compress.Codecs.Zstd)})
	compress.RegisterCodec(compress.Codecs.Snappy, cappedSnappy{codecOf(compress.Codecs.Snappy)})
	for _, c := range []compress.Compression{compress.Codecs.Gzip, compress.Codecs.Brotli} {
		compress.RegisterCodec(c, filling{codecOf(c)})
	}
}

func codecOf(c compress.Compression) compress.Codec {
	codec, err := compress.GetCodec(c)
	if err != nil {
		panic(err) // the library has it
	}
	return codec
}

var errInflates = errors.New("a page inflates to more than its header claims")

var cappedDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are right
	}
	return d
})

type cappedZstd struct{ compress.Codec }

// Decode implements compress.Codec. A failure is a panic there.
func (c cappedZstd) Decode(dst, src []byte) []byte {
	dst, err := cappedDecoder().DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		panic(err)
	}
	return dst
}

type cappedSnappy struct{ compress.Codec }

// Decode implements compress.Codec.
func (c cappedSnappy) Decode(dst, src []byte) []byte {
	if n, size := binary.Uvarint(src); size <= 0 || n > uint64(len(dst)) {
		panic(errInflates)
	}
	return c.Codec.Decode(dst, src)
}

// filling inflates into the memory of the size in the header; without any memory, the codec would inflate everything.
type filling struct{ compress.Codec }

// Decode implements compress.Codec.
func (c filling) Decode(dst, src []byte) []byte {
	if dst == nil {
		dst = []byte{}
	}
	return c.Codec.Decode(dst, src)
}

// headers goes through the headers of the pages of a column in a row group.
type headers struct {
	file io.ReaderAt
	at   int64 // of the next header
	end  int64 // of the file
	most int64 // bytes of a page inflated
}

// counted counts the bytes of a header.
type counted struct {
	from *bufio.Reader
	n    int64
}

func (c *counted) ReadByte() (byte, error) {
	c.n++
	return c.from.ReadByte()
}

func (c *counted) skip(n uint64) error {
	if n > 1<<24 { // the library takes no larger header
		return errHeader
	}
	c.n += int64(n)
	_, err := c.from.Discard(int(n))
	return err
}

var errHeader = errors.New("the header of a page cannot be read: the file is damaged")

// next checks the header of the next page and moves to the following page.
func (h *headers) next() error {
	if h.at >= h.end {
		return nil // the library finds the end, too
	}
	in := &counted{from: bufio.NewReaderSize(io.NewSectionReader(h.file, h.at, h.end-h.at), 512)}
	var page pageHeader
	if err := page.readHeader(in); err != nil {
		return errHeader
	}
	body := page.compressed
	if page.plain { // of version 2, read by the library with this size
		body = page.inflated
	}
	begin := h.at + in.n
	if page.compressed < 0 || page.inflated < 0 || max(body, page.compressed) > h.end-begin {
		return fmt.Errorf("a page claims %d bytes, which the file does not have: the file is damaged", max(body, page.compressed))
	}
	if page.inflated > h.most {
		return fmt.Errorf("a page claims %d MiB inflated, the file may have %d in a page: write the file with smaller pages", page.inflated>>20, h.most>>20)
	}
	h.at = begin + body
	return nil
}

// pageHeader is the fields that determine the memory of a page.
type pageHeader struct {
	inflated, compressed int64
	plain                bool // of version 2, and not compressed
}

// Types of the compact protocol of Thrift.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftStruct = 12
)

const mostNested = 16 // structs in a header

func (p *pageHeader) readHeader(in *counted) error {
	return readStruct(in, mostNested, func(id int64, kind byte) (bool, error) {
		switch {
		case id == 2 && kind == thriftI32:
			n, err := readInt(in)
			p.inflated = int64(int32(n))
			return true, err
		case id == 3 && kind == thriftI32:
			n, err := readInt(in)
			p.compressed = int64(int32(n))
			return true, err
		case id == 8 && kind == thriftStruct: // of a page of version 2
			return true, readStruct(in, mostNested-1, func(id int64, kind byte) (bool, error) {
				if id == 7 && (kind == thriftTrue || kind == thriftFalse) {
					p.plain = kind == thriftFalse
					return true, nil
				}
				return false, nil
			})
		}
		return false, nil
	})
}

// readStruct reads the fields that visit does not read.
func readStruct(in *counted, depth int, visit func(id int64, kind byte) (read bool, err error)) error {
	if depth == 0 {
		return errHeader
	}
	for id := int64(0); ; {
		b, err := in.ReadByte()
		if err != nil || b == 0 {
			return err
		}
		if delta := b >> 4; delta != 0 {
			id += int64(delta)
		} else if id, err = readInt(in); err != nil {
			return err
		}
		read, err := visit(id, b&15)
		if err == nil && !read {
			err = skipValue(in, b&15, depth)
		}
		if err != nil {
			return err
		}
	}
}

func readInt(in *counted) (int64, error) {
	n, err := readUint(in)
	return int64(n>>1) ^ -int64(n&1), err
}

func readUint(in *counted) (n uint64, err error) {
	for shift := 0; shift < 70; shift += 7 {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= uint64(b&127) << shift
		if b < 128 {
			return n, nil
		}
	}
	return 0, errHeader
}

// skipValue reads past a value of a field.
func skipValue(in *counted, kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse:
		return nil
	case thriftByte:
		return in.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := readUint(in)
		return err
	case thriftDouble:
		return in.skip(8)
	case thriftBinary:
		n, err := readUint(in)
		if err != nil {
			return err
		}
		return in.skip(n)
	case thriftStruct:
		return readStruct(in, depth-1, func(int64, byte) (bool, error) { return false, nil })
	}
	return errHeader // lists, sets and maps: no header has one
}
