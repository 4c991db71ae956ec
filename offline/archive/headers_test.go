package archive

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet/compress"
)

// zigzag is a whole number in Thrift's compact protocol.
func zigzag(n int64) string { return string(binary.AppendUvarint(nil, uint64(n<<1)^uint64(n>>63))) }

// pageOf is the header of a page: of version 1, with statistics, or of version 2.
func pageOf(inflated, compressed int64, version int, plain bool) string {
	h := "\x15" + zigzag(3*int64(version-1)) + "\x15" + zigzag(inflated) + "\x15" + zigzag(compressed)
	if version == 1 {
		return h + "\x2c\x15\x02\x15\x00\x15\x06\x15\x06\x1c\x18\x02ab\x18\x01c\x16\x00\x00\x00\x00"
	}
	isCompressed := "\x11"
	if plain {
		isCompressed = "\x12"
	}
	return h + "\x5c\x15\x02\x15\x00\x15\x02\x15\x00\x15\x00\x15\x00" + isCompressed + "\x00\x00"
}

// A page takes no more memory than its file can have data for, and no more bytes than the file has.
func TestPageHeaders(t *testing.T) {
	body := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		file, says string // empty: right
		next       int    // how far after the header the next one is
	}{
		"version 1":          {pageOf(1000, 60, 1, false) + body, "", 60},
		"version 2":          {pageOf(1000, 60, 2, false) + body, "", 60},
		"version 2, plain":   {pageOf(50, 60, 2, true) + body, "", 50},
		"all of the file":    {pageOf(1000, 100, 1, false) + body, "", 100},
		"beyond the file":    {pageOf(1000, 101, 1, false) + body, "a page claims 101 bytes", 0},
		"2 GiB":              {pageOf(1000, math.MaxInt32, 1, false) + body, "a page claims 2147483647 bytes", 0},
		"2 GiB, plain":       {pageOf(math.MaxInt32, 1, 2, true) + body, "a page claims 2147483647 bytes", 0},
		"2 GiB inflated":     {pageOf(math.MaxInt32, 60, 1, false) + body, "a page claims 2047 MiB inflated, the file may have 1", 0},
		"negative":           {pageOf(-1, 60, 1, false) + body, "a page claims", 0},
		"negative too":       {pageOf(60, -1, 1, false) + body, "a page claims", 0},
		"another type":       {"\x15\x00\x25\x02" + body, "cannot be read", 0},
		"a long text":        {"\x18\xff\xff\xff\xff\x0f" + body, "cannot be read", 0},
		"endless structs":    {strings.Repeat("\x1c", 1000), "cannot be read", 0},
		"the file has ended": {"\x15\x00\x15", "cannot be read", 0},
	} {
		h := headers{file: strings.NewReader(c.file), end: int64(len(c.file)), most: 1 << 20}
		err := h.next()
		switch {
		case c.says == "" && (err != nil || h.at != int64(len(c.file)-100+c.next)):
			t.Errorf("%s: %v, the next header is at %d of %d", name, err, h.at, len(c.file))
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A page inflates only into the claimed memory.
func TestPagesThatInflate(t *testing.T) {
	const size = 64 << 20
	for _, c := range []compress.Compression{compress.Codecs.Zstd, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli} {
		codec := codecOf(c)
		bomb := codec.Encode(make([]byte, codec.CompressBound(size)), make([]byte, size))
		small := codec.Encode(make([]byte, codec.CompressBound(5)), []byte("hello"))
		if got := codec.Decode(make([]byte, 5), small); string(got) != "hello" {
			t.Errorf("%s: %q", c, got)
		}
		for _, dst := range [][]byte{nil, make([]byte, 100)} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			func() {
				defer func() { recover() }() // guard reports a panic as an error of the file
				if got := codec.Decode(dst, bytes.Clone(bomb)); len(got) > len(dst) {
					t.Errorf("%s: %d bytes where %d were claimed", c, len(got), len(dst))
				}
			}()
			runtime.ReadMemStats(&after)
			if n := int(after.TotalAlloc-before.TotalAlloc) - len(bomb); n > size/2 {
				t.Errorf("%s: %d bytes were allocated for %d", c, n, len(dst))
			}
		}
	}
}
