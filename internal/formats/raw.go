package formats

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// RawTypes are the types of bare numbers: f float, i signed, u unsigned; bits;
// le or be, the order of bytes.
var RawTypes = []string{"f32le", "f32be", "f64le", "f64be", "i8", "u8", "i16le", "i16be", "u16le", "u16be", "i32le", "i32be", "u32le", "u32be"}

// rawType converts the bytes of a number.
type rawType struct {
	size int
	read func([]byte) float64 // exact for every type
}

var rawTypes = func() map[string]rawType {
	le, be := binary.LittleEndian, binary.BigEndian
	types := map[string]rawType{
		"i8": {1, func(b []byte) float64 { return float64(int8(b[0])) }},
		"u8": {1, func(b []byte) float64 { return float64(b[0]) }},
	}
	for end, o := range map[string]binary.ByteOrder{"le": le, "be": be} {
		types["i16"+end] = rawType{2, func(b []byte) float64 { return float64(int16(o.Uint16(b))) }}
		types["u16"+end] = rawType{2, func(b []byte) float64 { return float64(o.Uint16(b)) }}
		types["i32"+end] = rawType{4, func(b []byte) float64 { return float64(int32(o.Uint32(b))) }}
		types["u32"+end] = rawType{4, func(b []byte) float64 { return float64(o.Uint32(b)) }}
		types["f32"+end] = rawType{4, func(b []byte) float64 { return float64(math.Float32frombits(o.Uint32(b))) }}
		types["f64"+end] = rawType{8, func(b []byte) float64 { return math.Float64frombits(o.Uint64(b)) }}
	}
	return types
}()

// rawDecoder reads rows of numbers of one type, in sequence.
type rawDecoder struct {
	table
	typ     rawType
	indexes []int // of each channel in a row
	width   int   // numbers in a row
}

func newRaw(l *layout) (*rawDecoder, error) {
	d := &rawDecoder{table: newTable(l, Raw), typ: rawTypes[l.RawType]}
	for c, s := range l.channels {
		at := c
		if len(l.Channels) > 0 { // all or none: otherwise two channels could be the same number
			if len(s.steps) != 1 || s.steps[0].index < 0 {
				return nil, fmt.Errorf("formats: input.channels of %q is %q: want the position of each channel in a row, such as [%d], with input.format raw", l.schema.Channels[c], s.text, c)
			}
			at = s.steps[0].index
		}
		if slices.Contains(d.indexes, at) {
			return nil, fmt.Errorf("formats: input.channels of %q: another channel is at [%d]", l.schema.Channels[c], at)
		}
		d.indexes = append(d.indexes, at)
		d.width = max(d.width, at+1)
	}
	return d, nil
}

// Decode implements Decoder.
func (d *rawDecoder) Decode(payload []byte, b *codec.Batch) error {
	b.Reset()
	size := d.typ.size * d.width
	if len(payload)%size != 0 {
		return malformed(Raw, "%d bytes, want a multiple of %d: rows of %d numbers of type %s (%d bytes each)", len(payload), size, d.width, d.RawType, d.typ.size)
	}
	rows := len(payload) / size
	b.X = slices.Grow(b.X, rows*len(d.indexes))
	for ; len(payload) > 0; payload = payload[size:] {
		for c, at := range d.indexes {
			b.X = append(b.X, d.channels[c].scaled(d.typ.read(payload[at*d.typ.size:])))
		}
	}
	b.Rows = rows
	err := d.endMessage(b)
	if err != nil {
		b.Reset()
	}
	return err
}
