package codec

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// shadowMessage is a message of a shadow, and what is in it.
func shadowMessage(t testing.TB) ([]byte, PredictionMeta, []ShadowPrediction) {
	t.Helper()
	meta := PredictionMeta{Model: "m", SHA256: "ab", Readout: "test", Labels: []string{"a", "b", "c"}, Columns: 3, First: strings.Repeat("1", 32)}
	rows := []ShadowPrediction{
		{Prediction: Prediction{Stream: "s", Seq: 3, Row: 4, Time: 5, Answer: outcome.Answer{Class: 2, Score: 1, Probability: .5, Scores: []float32{-1, 0, 1}, Flags: outcome.FlagEarly}}, Active: 1, Began: 2, Input: 9, Stored: 8},
		{Prediction: Prediction{Stream: "ü", Seq: 1 << 60, Time: NoTime, Answer: outcome.Answer{Scores: []float32{1, 2, 3}}}, ActiveReadout: strings.Repeat("3", 32), Began: NoTime, Input: 10, Stored: 11},
	}
	e, err := NewShadowEncoder(meta, strings.Repeat("2", 32))
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(b), meta, rows
}

// A message of a shadow comes back as it was, and is one of predictions to whoever
// knows no shadows.
func TestShadowRoundTrip(t *testing.T) {
	b, meta, rows := shadowMessage(t)
	gotMeta, got, err := DecodeShadow(b)
	for i := range rows {
		rows[i].Readout = meta.First
	}
	rows[0].ActiveReadout = strings.Repeat("2", 32)
	if err != nil || !reflect.DeepEqual(got, rows) || !reflect.DeepEqual(gotMeta, meta) {
		t.Fatalf("%v\ngot  %+v\nwant %+v\nmeta %+v", err, got, rows, gotMeta)
	}
	_, plain, err := DecodePredictions(b)
	if err != nil || len(plain) != 2 || !reflect.DeepEqual(plain[0], rows[0].Prediction) {
		t.Errorf("as predictions: %+v, %v", plain, err)
	}
}

// What is no message of a shadow is refused.
func TestShadowRefused(t *testing.T) {
	_, out := seeds(t)
	if _, _, err := DecodeShadow(out[0]); err == nil || !strings.Contains(err.Error(), fieldActive) {
		t.Errorf("predictions without the fields of a shadow: %v", err)
	}
	_, meta, rows := shadowMessage(t)
	e, err := NewShadowEncoder(meta, "x")
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Active = 3
	b, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := DecodeShadow(b); err == nil || !strings.Contains(err.Error(), "active class 3") {
		t.Errorf("a class that there is not: %v", err)
	}
}

// FuzzDecodeShadow: as FuzzDecodePredictions.
func FuzzDecodeShadow(f *testing.F) {
	b, _, _ := shadowMessage(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var meta PredictionMeta
		var got []ShadowPrediction
		_, err := watch(t, "shadow", payload, func(p []byte) (err error) {
			meta, got, err = DecodeShadow(p)
			return err
		})
		if err != nil || meta.Columns > maxColumns {
			return
		}
		e, err := NewShadowEncoder(meta, "first")
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		first = slices.Clone(first)
		_, got, err = DecodeShadow(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := e.Encode(got)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("encoded twice: %v\n%x\n%x", err, first, second)
		}
	})
}
