package formats

import (
	"fmt"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/go-json-experiment/json"

	"github.com/eusn-stream/eusn-stream/codec"
)

// The meaning of packs, as JSON and as the same pack in CBOR.
func TestSenML(t *testing.T) {
	for _, c := range []struct {
		in   Input
		text string
		want string // of the batch, with a clock at 1e18 ns
	}{
		{Input{}, `[{"n":"a","v":1},{"n":"b","v":2}]`, "[1 2] [1000000000000000000] []"},
		{Input{}, `[{"bn":"d/","bt":1.7e9,"n":"a","v":1},{"n":"b","v":2},{"n":"b","t":1.5,"v":4},{"n":"a","t":1.5,"v":3},{"n":"a","t":-1,"vb":true},{"n":"b","t":-1,"vs":"7"}]`,
			"[1 7 1 2 3 4] [1699999999000000000 1700000000000000000 1700000001500000000] []"},
		{Input{}, `[{"bv":20,"bu":"Cel","n":"a","v":0.1},{"n":"b","u":"K","v":-20},{"n":"a","t":-5,"v":1},{"n":"b","u":"K","t":-5,"v":1,"bv":0}]`, "[21 1 20.1 0] [999999995000000000 1000000000000000000] []"},
		{Input{Stream: "bn"}, `[{"bn":"x/","n":"a","v":1},{"n":"b","v":2},{"bn":"y:","n":"a","v":3},{"n":"b","v":4}]`, "[1 2 3 4] [1000000000000000000 1000000000000000000] [x y]"},
		{Input{Channels: map[string]string{"a": "d/t * 0.5 - 1", "b": `["d/u v"]`}}, `[{"bn":"d/","n":"t","v":4},{"n":"u v","v":5},{"n":"z","vs":"x"},{"n":"s","s":9}]`, "[1 5] [1000000000000000000] []"},
		{Input{}, `[{"n":"a","v":16777217},{"n":"b","v":0.1}]`, "[1.6777216e+07 0.1] [1000000000000000000] []"},
		{Input{}, `[]`, "[] [] []"},
	} {
		c.in.Format = SenML
		d := newDecoder(t, c.in, codec.Hold, "a", "b")
		SetClock(d, func() int64 { return 1e18 })
		for _, payload := range [][]byte{[]byte(c.text), asCBOR(t, c.text)} {
			var b codec.Batch
			if err := d.Decode(payload, &b); err != nil {
				t.Errorf("%s: %v", c.text, err)
			} else if got := fmt.Sprint(b.X, " ", b.Times, " ", b.Keys); got != c.want {
				t.Errorf("%s: %s, want %s", c.text, got, c.want)
			}
		}
	}
	// A time at which a channel has no value is a row with a missing value.
	var b codec.Batch
	d := newDecoder(t, Input{Format: SenML}, codec.Hold, "a", "b")
	if err := d.Decode([]byte(`[{"n":"a","v":1},{"n":"b","v":2},{"n":"a","t":1,"v":3}]`), &b); err != nil || b.Rows != 2 || len(b.Missing) != 1 || b.Missing[0] != 3 || len(b.Times) > 0 {
		t.Errorf("%+v, %v: want two rows without times, the second without b", b, err)
	}
}

// asCBOR converts a pack from JSON to the labels of CBOR.
func asCBOR(t *testing.T, text string) []byte {
	t.Helper()
	labels := map[string]int{"bn": -2, "bt": -3, "bu": -4, "bv": -5, "n": 0, "u": 1, "v": 2, "vs": 3, "vb": 4, "s": 5, "t": 6}
	var pack []map[string]any
	if err := json.Unmarshal([]byte(text), &pack); err != nil {
		t.Fatal(err)
	}
	all := make([]map[int]any, len(pack))
	for i, r := range pack {
		all[i] = map[int]any{}
		for k, v := range r {
			if f, ok := v.(float64); ok && f == float64(int64(f)) {
				v = int64(f)
			}
			all[i][labels[k]] = v
		}
	}
	b, err := cbor.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
