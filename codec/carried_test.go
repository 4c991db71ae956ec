package codec

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// carriedMessage is a message of predictions with their features, and what is in it.
func carriedMessage(t testing.TB) ([]byte, PredictionMeta, []CarriedPrediction) {
	t.Helper()
	meta := PredictionMeta{Model: "m", SHA256: "ab", Readout: "test", Labels: []string{"a", "b", "c"}, Columns: 3, First: strings.Repeat("1", 32)}
	rows := []CarriedPrediction{
		{Prediction: Prediction{Stream: "s", Seq: 3, Row: 4, Time: 5, Answer: outcome.Answer{Class: 2, Score: 1, Probability: .5, Scores: []float32{-1, 0, 1}, Flags: outcome.FlagIdle}}, Number: 7, Samples: 40, Began: 2, Input: 9, Stored: 8, Features: []float32{1, -2}},
		{Prediction: Prediction{Stream: "ü", Seq: 1 << 60, Time: NoTime, Answer: outcome.Answer{Scores: []float32{1, 2, 3}}, Readout: strings.Repeat("3", 32)}, Number: 1 << 50, Began: NoTime, Input: 10, Stored: 11, Features: []float32{0, 1e-20}},
	}
	e, err := NewCarriedEncoder(meta, 2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(b), meta, rows
}

// A message comes back as it was, and is one of predictions to whoever knows no
// features.
func TestCarriedRoundTrip(t *testing.T) {
	b, meta, rows := carriedMessage(t)
	gotMeta, got, err := DecodeCarried(b)
	rows[0].Readout = meta.First
	if err != nil || !reflect.DeepEqual(got, rows) || !reflect.DeepEqual(gotMeta, meta) {
		t.Fatalf("%v\ngot  %+v\nwant %+v\nmeta %+v", err, got, rows, gotMeta)
	}
	_, plain, err := DecodePredictions(b)
	if err != nil || len(plain) != 2 || !reflect.DeepEqual(plain[0], rows[0].Prediction) {
		t.Errorf("as predictions: %+v, %v", plain, err)
	}
}

// What is no such message is refused, and what cannot be one is not made.
func TestCarriedRefused(t *testing.T) {
	_, out := seeds(t)
	if _, _, err := DecodeCarried(out[0]); err == nil || !strings.Contains(err.Error(), fieldNumber) {
		t.Errorf("predictions without features: %v", err)
	}
	shadow, _, _ := shadowMessage(t)
	if _, _, err := DecodeCarried(shadow); err == nil || !strings.Contains(err.Error(), fieldNumber) {
		t.Errorf("a shadow's message: %v", err)
	}
	b, meta, rows := carriedMessage(t)
	if _, _, err := DecodeCarried(b[:len(b)-20]); err == nil {
		t.Error("a message that ends too early is read")
	}
	e, err := NewCarriedEncoder(meta, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode(rows); err == nil || !strings.Contains(err.Error(), "2 features, want 3") {
		t.Errorf("other features than the encoder's: %v", err)
	}
	if _, err := NewCarriedEncoder(meta, 0); err == nil {
		t.Error("an encoder of no features is made")
	}
}

// FuzzDecodeCarried: as FuzzDecodePredictions.
func FuzzDecodeCarried(f *testing.F) {
	b, _, _ := carriedMessage(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var meta PredictionMeta
		var got []CarriedPrediction
		_, err := watch(t, "carried", payload, func(p []byte) (err error) {
			meta, got, err = DecodeCarried(p)
			return err
		})
		if err != nil || meta.Columns > maxColumns || len(got) == 0 || len(got[0].Features) > 1<<10 {
			return
		}
		if meta.First == "" {
			meta.First = "first"
		}
		e, err := NewCarriedEncoder(meta, len(got[0].Features))
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		first = slices.Clone(first)
		_, got, err = DecodeCarried(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := e.Encode(got)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("encoded twice: %v\n%x\n%x", err, first, second)
		}
	})
}
