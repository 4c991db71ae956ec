package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Limit of decompression: a message's size times the factor, plus the slack.
// Sensor samples compress to nine tenths; only constant samples come near the
// factor, and below the slack any message is accepted.
const (
	inflateFactor = 8
	inflateSlack  = 1 << 20
)

// Codecs of compressed bodies: CompressionType of the format.
const (
	codecLZ4  = 0
	codecZstd = 1
)

var errRatio = fmt.Errorf("decompresses to more than %d times the message's size + %d bytes", inflateFactor, inflateSlack)

// inflater decompresses the buffers of one message within a budget. The arena
// holds the results, which are valid until the next begin.
type inflater struct {
	left  int64 // bytes this message may still decompress to
	codec uint8
	arena []byte
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
	src   bytes.Reader
}

// reset sets the budget for a message of n bytes.
func (d *inflater) reset(n int) { d.left = inflateFactor*int64(n) + inflateSlack }

// begin starts a record batch: slices of the previous batch are reused.
func (d *inflater) begin(codec uint8) { d.codec, d.arena = codec, d.arena[:0] }

// buffer decompresses one buffer:
//
//	int64 size, or -1 for "stored as it is" | an lz4 or zstd frame
func (d *inflater) buffer(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("compressed buffer of %d bytes has no length prefix", len(b))
	}
	size, b := int64(binary.LittleEndian.Uint64(b)), b[8:]
	stored := size == -1
	if stored {
		size = int64(len(b))
	}
	if size < 0 {
		return nil, fmt.Errorf("compressed buffer claims %d bytes", size)
	}
	if d.left -= size; d.left < 0 {
		return nil, errRatio
	}
	if stored || size == 0 {
		return b[:size], nil
	}
	dst := d.alloc(int(size))
	var err error
	switch d.codec {
	case codecLZ4:
		err = d.unLZ4(dst, b)
	case codecZstd:
		err = d.unZstd(dst, b)
	default:
		err = fmt.Errorf("unknown compression %d, want lz4 or zstd", d.codec)
	}
	if err != nil && size == int64(len(b)) {
		err = fmt.Errorf("%w; the length before it is that of the compressed bytes, where Arrow wants that of the others: apache-arrow for JavaScript wrote so up to 21.2.0, publish without compression", err)
	}
	return dst, err
}

// alloc takes n bytes from the arena. A larger arena replaces a full arena;
// slices of the old arena stay valid, and only the new arena is kept.
func (d *inflater) alloc(n int) []byte {
	used := len(d.arena)
	if cap(d.arena)-used < n {
		d.arena, used = make([]byte, 0, max(n, 2*cap(d.arena))), 0
	}
	d.arena = d.arena[:used+n]
	return d.arena[used : used+n : used+n]
}

// lz4Magic begins an lz4 frame. The library would also take two older and
// stranger framings that Arrow does not use.
const lz4Magic = 0x184d2204

func (d *inflater) unLZ4(dst, src []byte) (err error) {
	if len(src) < 4 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errors.New("not an lz4 frame")
	}
	// The library indexes its history by lengths from the frame; the frame
	// causes a panic there.
	defer func() {
		if r := recover(); r != nil {
			d.lz4, err = nil, fmt.Errorf("lz4: %v", r)
		}
	}()
	if d.lz4 == nil {
		d.lz4 = lz4.NewReader(nil)
	}
	d.src.Reset(src)
	d.lz4.Reset(&d.src)
	defer func() {
		d.lz4.Reset(nil) // returns the block buffers to the library's pool
		d.src.Reset(nil)
	}()
	if _, err := io.ReadFull(d.lz4, dst); err != nil {
		return fmt.Errorf("lz4: %w", err)
	}
	// Reading on to the end checks the frame's checksum, if present.
	var more [1]byte
	if n, err := d.lz4.Read(more[:]); n != 0 || err != io.EOF {
		return fmt.Errorf("lz4: frame does not end after the %d bytes declared (%v)", len(dst), err)
	}
	return nil
}

func (d *inflater) unZstd(dst, src []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			d.zstd, err = nil, fmt.Errorf("zstd: %v", r)
		}
	}()
	if d.zstd == nil {
		// DecodeAll uses dst as its window, so a frame that declares a large
		// window costs nothing; the cap limit keeps DecodeAll from growing dst.
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	got, err := d.zstd.DecodeAll(src, dst[:0])
	if err != nil {
		return fmt.Errorf("zstd: %w", err)
	}
	if len(got) != len(dst) {
		return fmt.Errorf("zstd: %d bytes where %d were declared", len(got), len(dst))
	}
	return nil
}
