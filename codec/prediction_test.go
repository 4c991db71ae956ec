package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

func testMeta(columns int) PredictionMeta {
	return PredictionMeta{
		Model: "pump", SHA256: strings.Repeat("0f", 32), Readout: "fault",
		Labels: []string{"healthy", "inner race", "\"quoted\"", "größer"}, Columns: columns,
	}
}

func randomPredictions(r *rand.Rand, n, columns int) (p []Prediction) {
	for i := range n {
		one := Prediction{
			Stream: fmt.Sprintf("dev-%d", r.IntN(20)), Seq: r.Uint64(), Row: r.Uint32(), Time: int64(r.Uint64() >> 1),
			Answer: outcome.Answer{Class: int32(r.IntN(4)), Score: r.Float32(), Flags: outcome.Flag(r.Uint32())},
		}
		if i%3 == 1 {
			one.Time = NoTime
		}
		if n%2 == 1 || i%5 > 0 { // every message of an odd number has no null
			one.Probability = 1 - r.Float32()
		}
		if n != 8 && i%4 > 0 { // a message of 8 has no sets
			one.Set = [][]int32{{}, {2}, {0, 1, 3}}[i%3]
		}
		if n != 8 && i%5 != 2 { // nor novelty
			one.Novelty, one.NoveltyP = 10*r.Float32(), 1-r.Float32()
		}
		if n != 8 && i%5 > 2 { // nor changes
			one.Change = 1 - r.Float32()
		}
		if n != 8 && i%3 != 1 { // nor numbers
			one.Number = outcome.Number{Value: r.Float32(), Low: -r.Float32(), High: 1 + r.Float32(), Known: true}
		}
		if n != 8 && i%7 > 0 { // nor values typical of inputs
			one.Inputs = [][]float32{{}, {r.Float32(), -r.Float32(), float32(math.Inf(1))}, {r.Float32()}}[i%3]
		}
		for range columns {
			one.Scores = append(one.Scores, r.Float32())
		}
		p = append(p, one)
	}
	return p
}

func TestPredictionRoundTrip(t *testing.T) {
	for _, columns := range []int{0, 1, 4} {
		meta := testMeta(columns)
		e, err := NewPredictionEncoder(meta)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 8, 100, 2} {
			want := randomPredictions(newRand(uint64(n)), n, columns)
			payload, err := e.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			gotMeta, got, err := DecodePredictions(payload)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(gotMeta, meta) {
				t.Fatalf("meta %+v, want %+v", gotMeta, meta)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%d columns, %d rows: got %+v, want %+v", columns, n, got, want)
			}
			comparePredictions(t, payload, meta, want)
		}
	}
}

// comparePredictions reads an output message with the Arrow library.
func comparePredictions(t *testing.T, payload []byte, meta PredictionMeta, want []Prediction) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	md := r.Schema().Metadata()
	labels, _ := json.Marshal(meta.Labels)
	for key, value := range map[string]string{
		"eusn.schema": "prediction", "eusn.version": "1", "eusn.model": meta.Model,
		"eusn.model_sha256": meta.SHA256, "eusn.readout": meta.Readout, "eusn.labels": string(labels),
	} {
		if got, ok := md.GetValue(key); !ok || got != value {
			t.Errorf("metadata %s is %q, want %q", key, got, value)
		}
	}
	var got []Prediction
	for r.Next() {
		rec := r.Record()
		at := func(name string) int { return rec.Schema().FieldIndices(name)[0] }
		for i := range int(rec.NumRows()) {
			p := Prediction{
				Stream: rec.Column(at("stream_id")).(*array.String).Value(i),
				Seq:    rec.Column(at("seq")).(*array.Uint64).Value(i),
				Row:    rec.Column(at("row")).(*array.Uint32).Value(i),
				Time:   NoTime,
				Answer: outcome.Answer{Class: rec.Column(at("class")).(*array.Int32).Value(i), Score: rec.Column(at("score")).(*array.Float32).Value(i), Flags: outcome.Flag(rec.Column(at("flags")).(*array.Uint32).Value(i))},
			}
			if ts := rec.Column(at("ts")).(*array.Timestamp); ts.IsValid(i) {
				p.Time = int64(ts.Value(i))
			}
			if pr := rec.Column(at("probability")).(*array.Float32); pr.IsValid(i) {
				p.Probability = pr.Value(i)
			}
			if meta.Columns > 0 {
				list := rec.Column(at("scores")).(*array.FixedSizeList)
				p.Scores = list.ListValues().(*array.Float32).Float32Values()[i*meta.Columns : (i+1)*meta.Columns]
			}
			if sets := rec.Schema().FieldIndices("set"); len(sets) > 0 {
				if list := rec.Column(sets[0]).(*array.List); list.IsValid(i) {
					from, to := list.ValueOffsets(i)
					p.Set = slices.Clone(list.ListValues().(*array.Int32).Int32Values()[from:to:to])
				}
			}
			if at := rec.Schema().FieldIndices("inputs"); len(at) > 0 {
				if list := rec.Column(at[0]).(*array.List); list.IsValid(i) {
					from, to := list.ValueOffsets(i)
					p.Inputs = slices.Clone(list.ListValues().(*array.Float32).Float32Values()[from:to:to])
				}
			}
			for name, to := range map[string]*float32{"novelty": &p.Novelty, "novelty_p": &p.NoveltyP, "change": &p.Change} {
				if at := rec.Schema().FieldIndices(name); len(at) > 0 && rec.Column(at[0]).IsValid(i) {
					*to = rec.Column(at[0]).(*array.Float32).Value(i)
				}
			}
			if rec.Schema().HasField("value") {
				part := func(name string) *array.Float32 { return rec.Column(at(name)).(*array.Float32) }
				if v := part("value"); v.IsValid(i) {
					p.Number = outcome.Number{Value: v.Value(i), Low: part("low").Value(i), High: part("high").Value(i), Known: part("low").IsValid(i) && part("high").IsValid(i)}
				}
			}
			got = append(got, p)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("read by the library: got %+v, want %+v", got, want)
	}
}

func TestPredictionErrors(t *testing.T) {
	if _, err := NewPredictionEncoder(PredictionMeta{Columns: -1}); !errors.Is(err, ErrSchema) {
		t.Errorf("negative columns: got %v", err)
	}
	e, err := NewPredictionEncoder(testMeta(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode([]Prediction{{Answer: outcome.Answer{Scores: []float32{1}}}}); !errors.Is(err, ErrSchema) {
		t.Errorf("one score for two columns: got %v", err)
	}
	if _, err := e.Encode([]Prediction{{Stream: "\xff\xfe", Answer: outcome.Answer{Scores: []float32{1, 2}}}}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), `"\xff\xfe" is not UTF-8`) {
		t.Errorf("a stream name that no reader takes: got %v", err)
	}
	in, err := NewInputEncoder(testChannels, InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := in.Encode(&Batch{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = DecodePredictions(payload)
	if want := `codec: metadata eusn.schema: want "prediction", got "input"`; !errors.Is(err, ErrSchema) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFlagString(t *testing.T) {
	for f, want := range map[outcome.Flag]string{
		0: "", outcome.FlagGap: "gap", outcome.FlagGap | outcome.FlagHeld: "gap|held", outcome.FlagReordered | outcome.FlagWarmUp | outcome.FlagEarly | outcome.FlagPoisonSkipped: "reordered|warm-up|early|poison-skipped", outcome.FlagIdle: "idle",
		outcome.FlagOutOfRange | outcome.FlagFlat | outcome.FlagLength | outcome.FlagRate: "out-of-range|flat|length|rate", outcome.FlagEarly | outcome.FlagDecided: "early|decided", outcome.FlagAbstain: "abstain", 1 << 13: "8192", 1<<31 | outcome.FlagGap: "gap|2147483648",
	} {
		if got := f.String(); got != want {
			t.Errorf("outcome.Flag(%d) is %q, want %q", uint32(f), got, want)
		}
	}
}

// TestPredictionClassOutOfRange: a class without a label is refused, in any
// row: a reader would look outside the labels.
func TestPredictionClassOutOfRange(t *testing.T) {
	for _, c := range []struct {
		labels []string
		class  int32
		want   string
	}{
		{[]string{"a", "b"}, 2, "row 1: class 2, want 0 to 1: the message names 2 labels"},
		{[]string{"a", "b"}, -1, "row 1: class -1"},
		{[]string{"a", "b"}, math.MinInt32, "row 1: class -2147483648"},
		{[]string{"a", "b"}, math.MaxInt32, "row 1: class 2147483647"},
		{nil, 0, "row 0: class 0"},
	} {
		e, err := NewPredictionEncoder(PredictionMeta{Labels: c.labels})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := e.Encode([]Prediction{{Stream: "s"}, {Stream: "s", Answer: outcome.Answer{Class: c.class}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := DecodePredictions(payload); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("class %d of %d labels: %d predictions, %v, want %q", c.class, len(c.labels), len(got), err, c.want)
		}
	}
}

// TestPredictionWithoutSets: without a set the message has no field for sets; the same encoder
// writes both kinds.
func TestPredictionWithoutSets(t *testing.T) {
	e, err := NewPredictionEncoder(testMeta(2))
	if err != nil {
		t.Fatal(err)
	}
	p := randomPredictions(newRand(3), 8, 2)
	encode := func() []byte {
		b, err := e.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(b)
	}
	before := encode()
	p[3].Set = []int32{}
	with := encode()
	p[3].Set = nil
	if after := encode(); !bytes.Equal(before, after) || bytes.Contains(before, []byte("\x03\x00\x00\x00set\x00")) || !bytes.Contains(with, []byte("\x03\x00\x00\x00set\x00")) {
		t.Errorf("%d bytes, with a set %d, then without %d", len(before), len(with), len(after))
	}
	for _, set := range [][]int32{{1, 0}, {0, 0}, {4}, {-1}} {
		p[3].Set = set
		if _, _, err := DecodePredictions(encode()); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), `field "set": classes`) {
			t.Errorf("set %v of 4 classes: %v", set, err)
		}
	}
}

// TestPredictionNumbersWhole: a message has all three fields of a number or none, as has a row.
func TestPredictionNumbersWhole(t *testing.T) {
	number := arrow.PrimitiveTypes.Float32
	more := []arrow.Field{{Name: "value", Type: number, Nullable: true}, {Name: "low", Type: number, Nullable: true}, {Name: "high", Type: number, Nullable: true}}
	for want, c := range map[string]struct {
		fields []arrow.Field
		valid  [3][2]bool
	}{
		"":                          {more, [3][2]bool{{true, false}, {true, false}, {true, false}}},
		`without field "high"`:      {more[:2], [3][2]bool{}},
		`without field "value"`:     {more[1:], [3][2]bool{}},
		`row 1, field "low": want`:  {more, [3][2]bool{{true, true}, {true, false}, {true, true}}},
		`row 0, field "high": want`: {more, [3][2]bool{{false, true}, {false, true}, {true, true}}},
	} {
		e, err := NewPredictionEncoder(testMeta(0))
		if err != nil {
			t.Fatal(err)
		}
		e.more = c.fields
		clear(e.made)
		if err := e.writePredictions(make([]Prediction, 2)); err != nil {
			t.Fatal(err)
		}
		for k := range c.fields {
			e.t.nullable([]Prediction{{}, {Answer: outcome.Answer{Class: 1}}}, func(a *outcome.Answer) bool { return c.valid[k][a.Class] })
			e.t.open()
			e.t.f32(1)
			e.t.f32(2)
			e.t.close()
		}
		_, got, err := DecodePredictions(e.t.finish())
		if want == "" && (err != nil || got[0].Number != outcome.Number{Value: 1, Low: 1, High: 1, Known: true} || got[1].Number.Known) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v, %v, want %q", got, err, want)
		}
	}
}
