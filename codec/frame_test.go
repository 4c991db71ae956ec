package codec

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var (
	nan = float32(math.NaN())
	eos = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
)

// split cuts a valid payload into its messages, without the end marker.
func split(t testing.TB, payload []byte) (parts [][]byte) {
	t.Helper()
	for rest := payload; ; {
		_, next, more, err := nextFrame(rest)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return parts
		}
		parts = append(parts, rest[:len(rest)-len(next)])
		rest = next
	}
}

// writeRow writes a message of one row; values append the row field by field.
func writeRow(t testing.TB, fields []arrow.Field, values ...func(array.Builder)) []byte {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i, f := range b.Fields() {
		values[i](f)
	}
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(b.NewRecord()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestEveryTruncation: no prefix of a message passes for a message.
func TestEveryTruncation(t *testing.T) {
	for _, options := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		payload := writeMessage(t, newRand(3), messageSpec{fields: sampleFields(arrow.PrimitiveTypes.Float32), rows: []int{40, 3}, options: options})
		d := newDecoder(t, Hold)
		var b Batch
		for n := range payload {
			if err := d.Decode(payload[:n:n], &b); !errors.Is(err, ErrMalformed) {
				t.Fatalf("the first %d of %d bytes: got %v, want ErrMalformed", n, len(payload), err)
			}
		}
		if err := d.Decode(payload, &b); err != nil || b.Rows != 43 {
			t.Fatalf("the whole: %d rows, %v", b.Rows, err)
		}
		if err := d.Decode(append(slices.Clone(payload), 0), &b); !errors.Is(err, ErrMalformed) {
			t.Errorf("one byte more: got %v, want ErrMalformed", err)
		}
	}
}

// TestSharedBytes: record batches whose columns all share the same bytes would
// decode to more than their size.
func TestSharedBytes(t *testing.T) {
	payload := writeMessage(t, newRand(3), messageSpec{fields: sampleFields(arrow.PrimitiveTypes.Float32), rows: []int{64}})
	parts := split(t, payload)
	fr, _, _, err := nextFrame(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	f := &fr.meta
	bufs, n := f.fieldVector(fr.header, 2, 16)
	for i := range n {
		clear(f.b[bufs+16*i : bufs+16*i+8]) // every buffer at offset 0
	}
	// Enough bytes for all three columns: harmless, and decoded as written.
	if err := newDecoder(t, Reject).Decode(payload, &Batch{}); err != nil {
		t.Fatal(err)
	}
	// Keep the bytes of only one column, and set the lengths.
	short := len(parts[1]) - len(fr.body) + 64*4
	f.b = f.b[:len(f.b):len(f.b)]
	at := f.field(f.deref(0), 3)
	f.b[at], f.b[at+1], f.b[at+2] = 0, 1, 0
	payload = slices.Concat(parts[0], parts[1][:short], eos)
	if err := newDecoder(t, Reject).Decode(payload, &Batch{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
}
