package codec

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// shadowMessage returns a message of a shadow, and its content.
func shadowMessage(t testing.TB) ([]byte, PredictionMeta, []Prediction) {
	t.Helper()
	meta := PredictionMeta{Model: "m", SHA256: "ab", Readout: "test", Labels: []string{"a", "b", "c"}, Columns: 3, First: strings.Repeat("1", 32), Shadow: true}
	rows := []Prediction{
		{Stream: "s", Seq: 3, Row: 4, Time: 5, Answer: outcome.Answer{Class: 2, Score: 1, Probability: .5, Scores: []float32{-1, 0, 1}, Flags: outcome.FlagEarly}, Details: &Details{Active: 1, ActiveReadout: strings.Repeat("2", 32), Began: 2, Input: 9, Stored: 8}},
		{Stream: "ü", Seq: 1 << 60, Time: NoTime, Answer: outcome.Answer{Scores: []float32{1, 2, 3}}, Details: &Details{ActiveReadout: strings.Repeat("3", 32), Began: NoTime, Input: 10, Stored: 11}},
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

// TestShadowRoundTrip: a decoded message equals the encoded message.
func TestShadowRoundTrip(t *testing.T) {
	b, meta, rows := shadowMessage(t)
	gotMeta, got, err := DecodePredictions(b)
	for i := range rows {
		rows[i].Readout = meta.First
	}
	if err != nil || !reflect.DeepEqual(got, rows) || !reflect.DeepEqual(gotMeta, meta) {
		t.Fatalf("%v\ngot  %+v\nwant %+v\nmeta %+v", err, got, rows, gotMeta)
	}
}

// TestShadowRefused: other messages are refused.
func TestShadowRefused(t *testing.T) {
	_, out := seeds(t)
	if meta, _, err := DecodePredictions(out[0]); err != nil || meta.Shadow {
		t.Errorf("predictions without the fields of a shadow are of one: %v", err)
	}
	_, meta, rows := shadowMessage(t)
	e, err := NewPredictionEncoder(meta)
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Details.Active = 3
	b, err := e.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := DecodePredictions(b); err == nil || !strings.Contains(err.Error(), "active class 3") {
		t.Errorf("a class that there is not: %v", err)
	}
}

// FuzzDecodeShadow: as FuzzDecodePredictions.
func FuzzDecodeShadow(f *testing.F) {
	b, _, _ := shadowMessage(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var meta PredictionMeta
		var got []Prediction
		_, err := watch(t, "shadow", payload, func(p []byte) (err error) {
			meta, got, err = DecodePredictions(p)
			return err
		})
		if err != nil || meta.Columns > maxColumns || !meta.Shadow {
			return
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
