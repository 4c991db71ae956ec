package state

import (
	"encoding/binary"
	"fmt"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// stateReader decodes a snapshot; after the first error, every read returns zero.
type stateReader struct {
	b []byte
	Shape
	clocked bool // the snapshot has the times of open sequences
	err     error
}

func (r *stateReader) setError(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *stateReader) readBytes(n int) []byte {
	if n < 0 || n > len(r.b) { // below: int has 32 bits
		r.setError("cut short: %d bytes left, want %d", len(r.b), n)
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *stateReader) u8() byte {
	if v := r.readBytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *stateReader) readFlag() bool {
	v := r.u8()
	if v > 1 {
		r.setError("a yes-or-no byte is %d, want 0 or 1", v)
	}
	return v == 1
}

func (r *stateReader) u32() uint32 {
	if v := r.readBytes(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (r *stateReader) u64() uint64 {
	if v := r.readBytes(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// readFlags reads the output of appendFlag.
func (r *stateReader) readFlags() outcome.Flag {
	f := outcome.Flag(r.u32())
	if f>>len(outcome.FlagNames) != 0 {
		r.setError("flags %v, which this program does not know", f)
	}
	return f
}

// readLost reads the flags of a key's lost messages.
func (r *stateReader) readLost() outcome.Flag {
	f := outcome.Flag(r.u8())
	if f&^(outcome.FlagGap|outcome.FlagPoisonSkipped) != 0 {
		r.setError("flags %v of lost messages, want gap and poison-skipped only", f)
	}
	return f
}

func (r *stateReader) readText() string { return string(r.readBytes(int(r.u32()))) }

// readCount is a number of things of at least size bytes each.
func (r *stateReader) readCount(size int) int {
	n := int(r.u32())
	if n < 0 || n > len(r.b)/size {
		r.setError("%d entries in %d bytes", n, len(r.b))
		return 0
	}
	return n
}
