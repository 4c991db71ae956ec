package codec

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// TestDecodeDoesNotAllocate: once slices have grown and names are known, a
// message costs no allocation, whatever uncompressed form it has.
func TestDecodeDoesNotAllocate(t *testing.T) {
	check := func(name string, payload []byte, want float64) {
		t.Helper()
		d := newDecoder(t, Hold)
		var b Batch
		decode := func() {
			if err := d.Decode(payload, &b); err != nil {
				t.Fatal(err)
			}
		}
		decode()
		if got := testing.AllocsPerRun(100, decode); got > want {
			t.Errorf("%s: %v allocations per message, want at most %v", name, got, want)
		}
	}
	for _, o := range allInputOptions() {
		e, err := NewInputEncoder(testChannels, o)
		if err != nil {
			t.Fatal(err)
		}
		in := randomBatch(newRand(1), 500, len(testChannels), 40)
		payload, err := e.Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		check("encoder's own", payload, 0)
		encode := func() {
			if _, err := e.Encode(in); err != nil {
				t.Fatal(err)
			}
		}
		if got := testing.AllocsPerRun(100, encode); got != 0 {
			t.Errorf("%+v: %v allocations per encoded message, want 0", o, got)
		}
	}
	for _, typ := range streamTypes {
		fields := append(sampleFields(numberTypes[1:4]...), arrow.Field{Name: "stream_id", Type: typ}, extraFields[1])
		s := messageSpec{fields: fields, rows: []int{200, 9}, nulls: .1, odd: .1}
		check("casts, nulls, ids of "+typ.String(), writeMessage(t, newRand(2), s), 0)
	}
	// The zstd library allocates nothing here; lz4's takes two small readers.
	for name, o := range map[string]ipc.Option{"lz4": ipc.WithLZ4(), "zstd": ipc.WithZstd()} {
		s := messageSpec{fields: sampleFields(arrow.PrimitiveTypes.Float32), rows: []int{300}, options: []ipc.Option{o}}
		check(name, writeMessage(t, newRand(2), s), 20)
	}
}

func TestPredictionEncodeDoesNotAllocate(t *testing.T) {
	e, err := NewPredictionEncoder(testMeta(3))
	if err != nil {
		t.Fatal(err)
	}
	p := randomPredictions(newRand(1), 100, 3)
	encode := func() {
		if _, err := e.Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	encode()
	if got := testing.AllocsPerRun(100, encode); got != 0 {
		t.Errorf("%v allocations per message, want 0", got)
	}
}
