package codec

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// carriedMessage returns a message of predictions with features, and its content.
func carriedMessage(t testing.TB) ([]byte, PredictionMeta, []Prediction) {
	t.Helper()
	meta := PredictionMeta{Model: "m", SHA256: "ab", Readout: "test", Labels: []string{"a", "b", "c"}, Columns: 3, First: strings.Repeat("1", 32), Features: 2}
	rows := []Prediction{
		{Stream: "s", Seq: 3, Row: 4, Time: 5, Answer: outcome.Answer{Class: 2, Score: 1, Probability: .5, Scores: []float32{-1, 0, 1}, Flags: outcome.FlagIdle}, Details: &Details{Number: 7, Samples: 40, Began: 2, Input: 9, Stored: 8, Features: []float32{1, -2}}},
		{Stream: "ü", Seq: 1 << 60, Time: NoTime, Answer: outcome.Answer{Scores: []float32{1, 2, 3}}, Readout: strings.Repeat("3", 32), Details: &Details{Number: 1 << 50, Began: NoTime, Input: 10, Stored: 11, Features: []float32{0, 1e-20}}},
	}
	e, err := NewPredictionEncoder(meta)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(b), meta, rows
}

// TestCarriedRoundTrip: a decoded message equals the encoded message.
func TestCarriedRoundTrip(t *testing.T) {
	b, meta, rows := carriedMessage(t)
	gotMeta, got, err := DecodePredictions(b)
	rows[0].Readout = meta.First
	if err != nil || !reflect.DeepEqual(got, rows) || !reflect.DeepEqual(gotMeta, meta) {
		t.Fatalf("%v\ngot  %+v\nwant %+v\nmeta %+v", err, got, rows, gotMeta)
	}
}

// TestCarriedRefused: wrong messages are refused, and no wrong message is encoded.
func TestCarriedRefused(t *testing.T) {
	_, out := seeds(t)
	shadow, _, _ := shadowMessage(t)
	for _, other := range [][]byte{out[0], shadow} {
		if meta, _, err := DecodePredictions(other); err != nil || meta.Features != 0 {
			t.Errorf("other predictions have %d features: %v", meta.Features, err)
		}
	}
	b, meta, rows := carriedMessage(t)
	if _, _, err := DecodePredictions(b[:len(b)-20]); err == nil {
		t.Error("a message that ends too early is read")
	}
	meta.Features = 3
	e, err := NewPredictionEncoder(meta)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode(rows); err == nil || !strings.Contains(err.Error(), "2 features, want 3") {
		t.Errorf("other features than the encoder's: %v", err)
	}
	meta.Shadow = true
	if _, err := NewPredictionEncoder(meta); err == nil {
		t.Error("an encoder of a shadow's features is made")
	}
}

// FuzzDecodeCarried: as FuzzDecodePredictions.
func FuzzDecodeCarried(f *testing.F) {
	b, _, _ := carriedMessage(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var meta PredictionMeta
		var got []Prediction
		_, err := watch(t, "carried", payload, func(p []byte) (err error) {
			meta, got, err = DecodePredictions(p)
			return err
		})
		if err != nil || meta.Columns > maxColumns || len(got) == 0 || meta.Features == 0 || meta.Features > 1<<10 {
			return
		}
		if meta.First == "" {
			meta.First = "first"
		}
		e, err := NewPredictionEncoder(meta)
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		first = slices.Clone(first)
		_, got, err = DecodePredictions(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := e.Encode(got)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("encoded twice: %v\n%x\n%x", err, first, second)
		}
	})
}
