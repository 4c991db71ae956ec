package codec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
)

// TestKnownShapes: a decoder that knows the metadata gives the same result for
// the next message as a new decoder: the same samples, or the same error.
func TestKnownShapes(t *testing.T) {
	r := newRand(9)
	var series [][][]byte // of messages with the same metadata, but different positions of nulls
	for _, o := range allInputOptions() {
		e, err := NewInputEncoder(testChannels, o)
		if err != nil {
			t.Fatal(err)
		}
		var same [][]byte
		for _, rows := range []int{4, 4, 9, 4, 0, 4} {
			payload, err := e.Encode(randomBatch(r, rows, len(testChannels), 2))
			if err != nil {
				t.Fatal(err)
			}
			same = append(same, slices.Clone(payload))
		}
		series = append(series, same)
	}
	for range 40 {
		spec, seed := randomSpec(r), r.Uint64()
		series = append(series, [][]byte{writeMessage(t, newRand(seed), spec), writeMessage(t, newRand(seed), spec), writeMessage(t, newRand(seed+1), spec)})
	}
	for _, typ := range []arrow.DataType{arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int16} {
		spec := messageSpec{fields: sampleFields(typ), rows: []int{30}, odd: .1}
		series = append(series, [][]byte{writeMessage(t, newRand(1), spec), writeMessage(t, newRand(2), spec), writeMessage(t, newRand(3), spec)})
	}
	hits, wrong := 0, 0
	for i, same := range series {
		for _, policy := range []NonFinite{Reject, Hold} {
			known := newDecoder(t, policy)
			check := func(payload []byte) {
				t.Helper()
				if p, _ := known.known(payload); p != nil {
					hits++
				}
				var got, want Batch
				gotErr, wantErr := known.Decode(payload, &got), newDecoder(t, policy).Decode(payload, &want)
				if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
					t.Fatalf("series %d: %v, a new decoder says %v", i, gotErr, wantErr)
				}
				if d := diff(&got, &want); d != "" {
					t.Fatalf("series %d: %s", i, d)
				}
				if wantErr != nil {
					wrong++
				}
			}
			for _, payload := range same {
				check(payload)
				for range 20 {
					bad := slices.Clone(payload)
					switch at := r.IntN(len(bad)); r.IntN(3) {
					case 0:
						bad[at] ^= 1 << r.IntN(8)
					case 1:
						bad = bad[:at]
					default:
						bad = append(bad, bad[at:]...)
					}
					check(bad)
				}
				check(payload)
			}
		}
	}
	if hits < 200 || wrong < 500 {
		t.Errorf("%d messages were of a known shape and %d wrong: the test has lost its subject", hits, wrong)
	}
}
