package formats

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Bounds of the allocations of a call.
const (
	mostPerByte = 64
	mostFixed   = 3 << 20
)

// fuzzed are the settings for the fuzz test of each format.
var fuzzed = map[Format][]Input{
	JSON: {
		{}, {Channels: map[string]string{"a": "$.x.a * 0.1 - 3", "b": "$.x.l[1]"}, Time: "$.t", TimeUnit: "s", Stream: "$.dev"},
		{Rows: "$.rows", Stream: "$.dev", Time: "$.t", TimeStep: 1000, End: "$.end"},
	},
	CSV:    {{}, {Channels: map[string]string{"a": "[0]", "b": "[2] * 2"}, Separator: ";", Time: "[1]", TimeUnit: "ms"}},
	Influx: {{}, {Channels: map[string]string{"a": "$.fields.x", "b": "$.tags.y"}, Time: "t", Stream: "measurement"}},
	SenML:  {{}, {Channels: map[string]string{"a": "x * 0.1 - 3"}, Stream: "bn"}},
	Raw:    {{}, {RawType: "i16be", Channels: map[string]string{"a": "[2]", "b": "[0] * 0.5"}}, {RawType: "f64le"}},
	Auto:   {{}, {Channels: map[string]string{"a": "x"}, Time: "t"}},
}

// fuzz checks a format: no bytes panic or allocate without bound, a used decoder agrees
// with a new decoder, and an accepted message is a consistent batch that survives as
// Arrow.
func fuzz(f *testing.F, format Format) {
	for _, w := range wrongs[format] {
		f.Add([]byte(w.payload))
	}
	for _, s := range good[format] {
		f.Add([]byte(s))
	}
	names := []string{"a", "b"}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, in := range fuzzed[format] {
			in.Format = format
			hold, zero := newDecoder(t, in, codec.Hold, names...), newDecoder(t, in, codec.Zero, names...)
			var got, again codec.Batch
			err := watch(t, hold, payload, &got)
			if usedErr := watch(t, hold, payload, &again); fmt.Sprint(err) != fmt.Sprint(usedErr) {
				t.Fatalf("fresh decoder: %v; used decoder: %v", err, usedErr)
			}
			if err == nil && got.Rows > 0 {
				hold.Decode(payload[:len(payload)/2], &again) // leaves any state behind
				if err := hold.Decode(payload, &again); err != nil {
					t.Fatal(err)
				}
			}
			if s := describeDifference(withHeld(&again), withHeld(&got)); s != "" {
				t.Fatal(s)
			}
			if zeroErr := watch(t, zero, payload, &again); fmt.Sprint(err) != fmt.Sprint(zeroErr) || !slices.Equal(got.Missing, again.Missing) {
				t.Fatalf("hold: %v, missing %v; zero: %v, missing %v", err, got.Missing, zeroErr, again.Missing)
			}
			checkBatch(t, &again)
			if err != nil {
				continue
			}
			enc, err := codec.NewInputEncoder(names, codec.InputOptions{Times: len(again.Times) > 0, Ends: len(again.Ends) > 0, Keys: len(again.Keys) > 0})
			if err != nil {
				t.Fatal(err)
			}
			arrow, err := enc.Encode(&again)
			if err != nil {
				t.Fatal(err)
			}
			again.Missing = nil
			if err := newDecoder(t, Input{}, codec.Zero, names...).Decode(arrow, &got); err != nil {
				t.Fatal(err)
			}
			if s := describeDifference(&got, &again); s != "" && again.Rows > 0 {
				t.Fatal(s)
			}
		}
	})
}

// withHeld returns a batch whose held samples are comparable.
func withHeld(b *codec.Batch) *codec.Batch {
	for _, i := range b.Missing {
		b.X[i] = float32(math.Inf(1))
	}
	return b
}

func watch(t *testing.T, d Decoder, payload []byte, b *codec.Batch) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := d.Decode(payload, b)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(mostPerByte*len(payload)+mostFixed) {
		t.Errorf("%d bytes allocated for a payload of %d", n, len(payload))
	}
	if err != nil && !errors.Is(err, codec.ErrMalformed) && !errors.Is(err, codec.ErrSchema) && !errors.Is(err, codec.ErrNonFinite) {
		t.Errorf("error of no kind: %v", err)
	}
	if err != nil && (b.Rows > 0 || len(b.X) > 0 || len(err.Error()) > 2000) {
		t.Errorf("%d rows beside an error of %d bytes", b.Rows, len(err.Error()))
	}
	return err
}

// checkBatch checks the guarantees of codec.Batch on a batch decoded under Zero.
func checkBatch(t *testing.T, b *codec.Batch) {
	t.Helper()
	for what, n := range map[string]int{"times": len(b.Times), "ends": len(b.Ends), "keys": len(b.Key)} {
		if n != 0 && n != b.Rows {
			t.Fatalf("%d %s for %d rows", n, what, b.Rows)
		}
	}
	if len(b.X) != 2*b.Rows {
		t.Fatalf("%d samples for %d rows", len(b.X), b.Rows)
	}
	for i, x := range b.X {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			t.Fatalf("sample %d is %v", i, x)
		}
	}
	next := int32(0)
	for _, k := range b.Key {
		if k < 0 || k > next || int(k) >= len(b.Keys) {
			t.Fatalf("keys %v of %v", b.Key, b.Keys)
		}
		next = max(next, k+1)
	}
	if int(next) != len(b.Keys) || !slices.IsSorted(b.Missing) {
		t.Fatalf("%d keys used of %v; missing %v", next, b.Keys, b.Missing)
	}
}

// good are accepted seeds for one of the settings of fuzzed.
var good = map[Format][]string{
	JSON: {
		`{"a":1,"b":2.5e-3,"ts":17,"stream_id":"x","end":true}`, `[{"a":null,"b":"NaN"},{"a":1,"b":true}]`, `{"a":[1,2],"b":[3,4],"ts":[5,6]}`, "{\"a\":1,\"b\":2}\n{\"b\":3,\"a\":4}",
		`[[1,2],[3,4]]`, `[1,2]`, `{"x":{"a":5,"l":[0,"6"]},"t":1.5,"dev":7}`, `{"rows":[{"a":1,"b":2},[3,4]],"dev":"d\u00e9","t":"2026-01-31T12:00:00Z","end":true}`, `[]`,
	},
	CSV:    {"a,b\n1,2\n", "b,ts,a,stream_id,end\n1,5,2,x,true\n,,3,\"y \"\"z\"\"\",\n", "1;5;2\r\n3;6;4\r\n", "\xef\xbb\xbfa,b\n"},
	Influx: {"m,stream_id=x a=1,b=2i 5\nm,stream_id=y b=3u,a=t 6\n", "m\\ n,y=4 x=\"5\",t=17i", "# nothing\n", "m a=1,b=2,end=true"},
	SenML: {
		`[{"bn":"d/","bt":1.32e9,"bu":"m","n":"a","v":1.5},{"n":"b","t":-5,"vb":true},{"n":"b","v":2}]`, `[{"n":"a","vs":"3"},{"n":"b","v":1,"bv":0.1,"u":"V"},{"n":"x","vd":"aGk","s":5}]`, `[]`,
		`[{"bn":"d","bv":20,"n":"a"},{"n":"b","v":2}]`, "\x82\xa2\x00\x61a\x02\xc4\x82\x21\x19\x01\x11\xa2\x00\x61b\x02\x01",
		"\x82\xa3\x21\x62d/\x00\x61a\x02\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00\xa3\x00\x61b\x02\xf9\x3c\x00\x06\x20", "\x9f\xa4\x00\x61a\x04\xf5\x22\x1a\x5f\xff\xff\xff\x06\x01\xa2\x00\x61b\x03\x612\xff",
	},
	Raw:  {"12345678", "123456", "1234567812345678", ""},
	Auto: {`{"a":1,"b":2}`, "a,b\n1,2\n", "m a=1,b=2", `{"x":1,"b":2,"t":5}`},
}

func FuzzJSON(f *testing.F)   { fuzz(f, JSON) }
func FuzzCSV(f *testing.F)    { fuzz(f, CSV) }
func FuzzInflux(f *testing.F) { fuzz(f, Influx) }
func FuzzRaw(f *testing.F)    { fuzz(f, Raw) }
func FuzzSenML(f *testing.F)  { fuzz(f, SenML) }
func FuzzAuto(f *testing.F)   { fuzz(f, Auto) }
