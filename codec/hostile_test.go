package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Limits of one call, for any input.
//
// Memory: a row of a few bytes becomes a name, a map entry and list entries
// (times 64 covers the smallest rows, each of a new stream), a compressed body
// its budget and twice that for the arena's growth, the zstd decoder 2 MiB at
// its first use, and lz4 up to four blocks of 4 MiB from the library's pool,
// because a frame may declare such blocks.
const (
	mostPerByte   = 64
	mostForBodies = 3 * inflateSlack
	mostForZstd   = 2 << 20
	mostForLZ4    = 4 * 4 << 20
	mostTime      = time.Second // the least of three calls: on a busy machine a call may wait
)

// watch calls f on the payload and reports a panic, a slow call, a large
// allocation and an error of no known kind.
func watch(t testing.TB, what string, payload []byte, f func([]byte) error) (allocated uint64, err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s: panic: %v\n%x", what, r, payload)
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err = f(payload)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	allocated = after.TotalAlloc - before.TotalAlloc
	limit := mostPerByte*len(payload) + mostForBodies
	if bytes.Contains(payload, zstdMagic) {
		limit += mostForZstd
	}
	if bytes.Contains(payload, binary.LittleEndian.AppendUint32(nil, lz4Magic)) {
		limit += mostForLZ4
	}
	if allocated > uint64(limit) {
		t.Errorf("%s: %d bytes allocated for a payload of %d\n%.4000x", what, allocated, len(payload), payload)
	}
	for range 2 {
		if took > mostTime {
			start = time.Now()
			_ = f(payload)
			took = min(took, time.Since(start))
		}
	}
	if took > mostTime {
		t.Errorf("%s: took %v\n%.4000x", what, took, payload)
	}
	if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrSchema) && !errors.Is(err, ErrNonFinite) {
		t.Errorf("%s: error of no kind: %v", what, err)
	}
	return allocated, err
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// decodeFresh decodes with a new decoder, without known schemas and names.
func decodeFresh(t testing.TB) func([]byte) error {
	return func(payload []byte) error { return newDecoder(t, Hold).Decode(payload, &Batch{}) }
}

func decodePredictions(payload []byte) error {
	_, _, err := DecodePredictions(payload)
	return err
}

// seeds are valid messages of all forms, for mutation.
func seeds(t testing.TB) (in, out [][]byte) {
	t.Helper()
	r := newRand(11)
	f32 := arrow.PrimitiveTypes.Float32
	id := func(typ arrow.DataType) arrow.Field { return arrow.Field{Name: "stream_id", Type: typ} }
	write := func(s messageSpec) { in = append(in, writeMessage(t, r, s)) }
	for _, o := range []InputOptions{{Times: true}, {Layout: List, Ends: true}, {Times: true, Ends: true, Keys: true}} {
		e, err := NewInputEncoder(testChannels, o)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := e.Encode(randomBatch(r, 16, len(testChannels), 4))
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, slices.Clone(payload))
	}
	for _, typ := range []arrow.DataType{streamTypes[1], streamTypes[2], streamTypes[3], streamTypes[5], streamTypes[8]} {
		write(messageSpec{fields: append(sampleFields(f32), id(typ)), rows: []int{9, 7}, nulls: .1})
	}
	for _, o := range []ipc.Option{ipc.WithLZ4(), ipc.WithZstd()} {
		write(messageSpec{fields: append(sampleFields(f32), id(streamTypes[2])), rows: []int{40}, options: []ipc.Option{o}})
		write(messageSpec{fields: []arrow.Field{listField(arrow.PrimitiveTypes.Int16)}, rows: []int{40}, options: []ipc.Option{o}})
	}
	write(messageSpec{fields: append(sampleFields(numberTypes[1:4]...), extraFields[:8]...), rows: []int{5, 3}, nulls: .2, odd: .1})
	for _, columns := range []int{0, 3} {
		e, err := NewPredictionEncoder(testMeta(columns))
		if err != nil {
			t.Fatal(err)
		}
		sets := randomPredictions(r, 10, columns)
		plain := slices.Clone(sets)
		for i := range plain {
			plain[i].Set, plain[i].Novelty, plain[i].NoveltyP, plain[i].Change, plain[i].Number, plain[i].Inputs = nil, 0, 0, 0, outcome.Number{}, nil
		}
		for i, p := range [][]Prediction{plain, sets} {
			payload, err := e.Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			out = slices.Insert(out, len(out)/(2-i), slices.Clone(payload)) // seeds with sets last
		}
	}
	return in, out
}

// extremes are numbers that break careless arithmetic on lengths and offsets.
var extremes = []uint64{0, 1, 7, 0x7f, 0xff, 0x7fff, 0xffff, 1 << 20, 1 << 28, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 33, 1 << 40, 1 << 61, 1<<63 - 1, 1 << 63, 1<<64 - 1}

// mutate damages a copy of one seed in one to three places.
func mutate(r *rand.Rand, seeds [][]byte) []byte {
	b := slices.Clone(seeds[r.IntN(len(seeds))])
	for range 1 + r.IntN(3) {
		if len(b) < 16 {
			return b
		}
		at := r.IntN(len(b) - 8)
		switch r.IntN(7) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2:
			binary.LittleEndian.PutUint16(b[at&^1:], uint16(extremes[r.IntN(len(extremes))]))
		case 3:
			binary.LittleEndian.PutUint32(b[at&^3:], uint32(extremes[r.IntN(len(extremes))]))
		case 4:
			binary.LittleEndian.PutUint64(b[at&^7:], extremes[r.IntN(len(extremes))])
		case 5: // replace a piece by a piece of this or another message
			other := seeds[r.IntN(len(seeds))]
			from := r.IntN(len(other))
			n := r.IntN(min(64, len(other)-from) + 1)
			b = slices.Replace(b, at, min(len(b), at+r.IntN(64)), other[from:from+n]...)
		case 6: // an offset or length a little off
			v := binary.LittleEndian.Uint32(b[at&^3:])
			binary.LittleEndian.PutUint32(b[at&^3:], v+uint32(r.IntN(17))-8)
		}
	}
	if r.IntN(10) == 0 {
		b = b[:r.IntN(len(b)+1)]
	}
	return b
}

// TestMutants decodes damaged messages, most of them with damaged metadata.
func TestMutants(t *testing.T) {
	in, out := seeds(t)
	count := 20000
	if testing.Short() {
		count = 2000
	}
	reused := newDecoder(t, Hold)
	var b Batch
	kinds := map[string]int{}
	most := uint64(0)
	for i := range count {
		r := newRand(uint64(i))
		payload := mutate(r, in)
		allocated, err := watch(t, "fresh decoder", payload, decodeFresh(t))
		most = max(most, allocated)
		fresh := err == nil
		_, err = watch(t, "used decoder", payload, func(p []byte) error { return reused.Decode(p, &b) })
		if fresh != (err == nil) {
			t.Fatalf("mutant %d: a used decoder says %v, a fresh one differs", i, err)
		}
		kinds[kindOf(err)]++
		_, err = watch(t, "predictions", mutate(r, out), decodePredictions)
		kinds["predictions: "+kindOf(err)]++
	}
	t.Logf("%d mutants each: %v; at most %d KiB allocated by one", count, kinds, most>>10)
	for _, kind := range []string{"ok", "malformed", "schema", "predictions: ok", "predictions: malformed", "predictions: schema"} {
		if kinds[kind] < count/1000 {
			t.Errorf("only %d mutants ended as %q: the mutator has become one-sided", kinds[kind], kind)
		}
	}
}

func kindOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrMalformed):
		return "malformed"
	case errors.Is(err, ErrSchema):
		return "schema"
	}
	return "non-finite"
}

// TestHostile: messages made to cost more than their size.
func TestHostile(t *testing.T) {
	refuse := func(name string, payload []byte, kind error) {
		t.Helper()
		_, err := watch(t, name, payload, decodeFresh(t))
		if !errors.Is(err, kind) {
			t.Errorf("%s: got %v, want %v", name, err, kind)
		}
		if _, err = watch(t, name, payload, decodePredictions); err == nil {
			t.Errorf("%s: accepted as predictions", name)
		}
	}
	// First check the builders below: small messages are readable, and lack
	// only the channels.
	refuse("three fields", message(sharedFields(3, "f")), ErrSchema)
	refuse("fifteen fields", message(doublingField(3)), ErrSchema)
	refuse("nested", message(nestedField(10)), ErrSchema)
	refuse("one field table, many times", message(sharedFields(200_000, "f")), ErrMalformed)
	refuse("one long name, many times", message(sharedFields(50_000, strings.Repeat("n", 1<<20))), ErrSchema)
	refuse("children of children, doubling", message(doublingField(60)), ErrMalformed)
	refuse("nested deeply", message(nestedField(50_000)), ErrMalformed)
	refuse("one long metadata value, many times", message(sharedMetadata(10_000, strings.Repeat("v", 1<<20))), ErrSchema)
	// A map of few names is searched without hashing; this map is larger.
	many := make([]string, 50)
	for i := range many {
		many[i] = strings.Repeat("c", i+1)
	}
	_, err := watch(t, "one long name, many channels", message(sharedFields(50_000, strings.Repeat("n", 1<<20))), func(p []byte) error {
		d, err := NewDecoder(Schema{Channels: many})
		if err != nil {
			t.Fatal(err)
		}
		return d.Decode(p, &Batch{})
	})
	if !errors.Is(err, ErrSchema) {
		t.Errorf("one long name, many channels: got %v, want ErrSchema", err)
	}
	refuse("no schema", eos, ErrMalformed)
	refuse("nothing", nil, ErrMalformed)
	refuse("metadata length negative", []byte{255, 255, 255, 255, 0, 0, 0, 128, 0, 0}, ErrMalformed)
}

// TestBombs: bodies that decompress to far more than their size, or declare so.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 64<<20)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var lz bytes.Buffer
	w := lz4.NewWriter(&lz)
	if _, err := w.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	window := append(slices.Clone(zstdMagic), 0, 0xf8) // a window of 2 GiB, no size, then a block
	window = append(window, 0x01, 0, 0)
	for name, c := range map[string]struct {
		codec uint8
		size  int64
		frame []byte
	}{
		"zstd honest":       {codecZstd, 64 << 20, enc.EncodeAll(zeros, nil)},
		"zstd understating": {codecZstd, 1 << 20, enc.EncodeAll(zeros, nil)},
		"zstd window":       {codecZstd, 1 << 19, window},
		"lz4 honest":        {codecLZ4, 64 << 20, lz.Bytes()},
		"lz4 understating":  {codecLZ4, 1 << 20, lz.Bytes()},
		"negative":          {codecLZ4, -2, lz.Bytes()},
		"huge":              {codecZstd, 1<<63 - 1, nil},
		"other codec":       {7, 100, make([]byte, 100)},
	} {
		prefixed := append(binary.LittleEndian.AppendUint64(nil, uint64(c.size)), c.frame...)
		_, err := watch(t, name, prefixed, func(b []byte) error {
			var d inflater
			d.reset(1000) // as if of a small message
			d.begin(c.codec)
			if _, err := d.buffer(b); err != nil {
				return malformed("%v", err)
			}
			return nil
		})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
