package codec

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// TestInflateForms reads frames of other writers: the Arrow libraries differ in
// block sizes, checksums and declared sizes.
func TestInflateForms(t *testing.T) {
	r := newRand(1)
	var want []byte
	for range 100_000 {
		want = append(want, byte(r.IntN(4))) // compressible, in more than one block
	}
	closed := func(w io.WriteCloser, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	frames := map[string][]byte{"stored": want}
	for name, options := range map[string][]lz4.Option{
		"lz4 64 KiB blocks":  {lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)},
		"lz4 4 MiB blocks":   {lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(true)},
		"lz4 declaring size": {lz4.BlockSizeOption(lz4.Block256Kb), lz4.SizeOption(uint64(len(want)))},
	} {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		closed(w, w.Apply(options...))
		frames[name] = b.Bytes()
	}
	for name, options := range map[string][]zstd.EOption{
		"zstd streamed, 8 MiB window": {zstd.WithWindowSize(8 << 20)},
		"zstd fastest, no checksum":   {zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false)},
	} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, options...)
		closed(w, err)
		frames[name] = b.Bytes()
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frames["zstd at once"] = enc.EncodeAll(want, nil)

	var d inflater
	for range 2 { // the second time with used decompressors and a grown arena
		for name, frame := range frames {
			d.reset(len(want))
			d.begin(codecZstd)
			size := uint64(len(want))
			switch {
			case name == "stored":
				size = 1<<64 - 1
			case name[:3] == "lz4":
				d.begin(codecLZ4)
			}
			got, err := d.buffer(append(binary.LittleEndian.AppendUint64(nil, size), frame...))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

// TestInflateChecksum: a checksum in the frame is checked.
func TestInflateChecksum(t *testing.T) {
	data := make([]byte, 5000)
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for codec, frame := range map[uint8][]byte{codecLZ4: b.Bytes(), codecZstd: enc.EncodeAll(data, nil)} {
		frame[len(frame)-1] ^= 1
		var d inflater
		d.reset(len(data))
		d.begin(codec)
		if _, err := d.buffer(append(binary.LittleEndian.AppendUint64(nil, uint64(len(data))), frame...)); err == nil {
			t.Errorf("codec %d: a wrong checksum was accepted", codec)
		}
	}
}

// TestInflateWrongLength: the length of the compressed bytes has its own
// message, because a library is known to write it.
func TestInflateWrongLength(t *testing.T) {
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if _, err := w.Write(make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for codec, frame := range map[uint8][]byte{codecLZ4: b.Bytes(), codecZstd: enc.EncodeAll(make([]byte, 5000), nil)} {
		var d inflater
		d.reset(5000)
		d.begin(codec)
		_, err := d.buffer(append(binary.LittleEndian.AppendUint64(nil, uint64(len(frame))), frame...))
		if err == nil || !strings.Contains(err.Error(), "that of the compressed bytes") {
			t.Errorf("codec %d: got %v", codec, err)
		}
	}
}
