package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

var channels = []string{"c0", "c1", "c2"}

func newDecoder(t testing.TB, in Input, policy codec.NonFinite, names ...string) Decoder {
	t.Helper()
	if names == nil {
		names = channels
	}
	d, err := New(in, codec.Schema{Channels: names, NonFinite: policy})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sample returns any finite float32: subnormal numbers are as likely as large numbers.
func sample(rng *rand.Rand) float32 {
	for {
		x := math.Float32frombits(rng.Uint32())
		if rng.IntN(4) == 0 {
			x = float32(rng.IntN(2000)-1000) / 8
		}
		if !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) {
			return x
		}
	}
}

// random returns a batch that a message may hold.
func random(rng *rand.Rand, rows int, times, ends, keys bool) *codec.Batch {
	b := &codec.Batch{Rows: rows}
	for range rows * len(channels) {
		b.X = append(b.X, sample(rng))
	}
	for i := range rows {
		if times {
			b.Times = append(b.Times, rng.Int64N(4e18)-1e18)
		}
		if ends {
			b.Ends = append(b.Ends, rng.IntN(3) == 0)
		}
		if keys {
			b.Keys = []string{"pump-1", "Förderer 2", "7"}
			b.Key = append(b.Key, int32(min(i, rng.IntN(3))))
		}
	}
	return b
}

// text32 returns the shortest decimal of a float32, in the given notation.
func text32(x float32, notation byte) string {
	return strconv.FormatFloat(float64(x), notation, -1, 32)
}

// shape writes a batch in one shape of a format, with the input to read it.
type shape struct {
	name  string
	in    Input
	fits  func(b *codec.Batch) bool // nil: all
	write func(b *codec.Batch) []byte
}

// rowObject returns a row as JSON.
func rowObject(b *codec.Batch, i int, notation byte) string {
	var s bytes.Buffer
	s.WriteString("{")
	for c, name := range channels {
		fmt.Fprintf(&s, "%s%q: %s", []string{",", ""}[b2i(c == 0)], name, text32(b.X[i*len(channels)+c], notation))
	}
	if len(b.Times) > 0 {
		fmt.Fprintf(&s, `,"ts":%d`, b.Times[i])
	}
	if len(b.Ends) > 0 {
		fmt.Fprintf(&s, `,"end":%v`, b.Ends[i])
	}
	if len(b.Keys) > 0 {
		id, _ := json.Marshal(b.Keys[b.Key[i]])
		fmt.Fprintf(&s, `,"stream_id":%s`, id)
	}
	s.WriteString("}")
	return s.String()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func column(b *codec.Batch, c int) string {
	var s []string
	for i := range b.Rows {
		s = append(s, text32(b.X[i*len(channels)+c], 'g'))
	}
	return "[" + join(s, ",") + "]"
}

func join[T any](all []T, sep string) string {
	var s bytes.Buffer
	for i, v := range all {
		if i > 0 {
			s.WriteString(sep)
		}
		fmt.Fprint(&s, v)
	}
	return s.String()
}

func bare(b *codec.Batch) bool { return len(b.Times)+len(b.Ends)+len(b.Keys) == 0 }

var shapes = []shape{
	{"json array of objects", Input{Format: JSON}, nil, func(b *codec.Batch) []byte {
		var rows []string
		for i := range b.Rows {
			rows = append(rows, rowObject(b, i, 'g'))
		}
		return []byte("[" + join(rows, ",\n") + "]")
	}},
	{"json lines", Input{Format: JSON}, func(b *codec.Batch) bool { return b.Rows > 0 }, func(b *codec.Batch) []byte {
		var rows []string
		for i := range b.Rows {
			rows = append(rows, rowObject(b, i, 'e'))
		}
		return []byte(join(rows, "\n"))
	}},
	{"json arrays", Input{Format: JSON}, bare, func(b *codec.Batch) []byte {
		var rows []string
		for i := range b.Rows {
			var cells []string
			for _, x := range b.X[i*len(channels):][:len(channels)] {
				cells = append(cells, text32(x, 'g'))
			}
			rows = append(rows, "["+join(cells, ",")+"]")
		}
		return []byte("[" + join(rows, ",") + "]")
	}},
	{"json columns", Input{Format: JSON, Channels: map[string]string{"c0": "$.data.a", "c1": `@["b c"]`, "c2": "$.data.list[1]"},
		Time: "$.t", TimeUnit: "s", Stream: "$.dev", End: "$.data.last"}, func(b *codec.Batch) bool {
		return len(b.Times) > 0 && len(b.Keys) > 0
	}, func(b *codec.Batch) []byte {
		var times, ids, ends []string
		for i, at := range b.Times {
			sign := ""
			if at < 0 {
				sign, at = "-", -at
			}
			times = append(times, fmt.Sprintf("%s%d.%09d", sign, at/1e9, at%1e9))
			ids = append(ids, strconv.Quote(b.Keys[b.Key[i]]))
		}
		for _, end := range b.Ends {
			ends = append(ends, fmt.Sprint(end))
		}
		last := ""
		if len(b.Ends) > 0 {
			last = `,"last":[` + join(ends, ",") + "]"
		}
		return fmt.Appendf(nil, `{"noise":{"a":[1,{}]},"t":[%s],"b c":%s,"data":{"list":["x",%s,null],"a":%s%s},"dev":[%s]}`,
			join(times, ","), column(b, 1), column(b, 2), column(b, 0), last, join(ids, ","))
	}},
	{"json rows inside", Input{Format: JSON, Rows: "$.body.samples", Channels: map[string]string{"c0": "c0", "c1": "@.c1", "c2": "c2"},
		Time: "@.ts", Stream: "stream_id"}, func(b *codec.Batch) bool { return len(b.Times) > 0 && len(b.Keys) > 0 }, func(b *codec.Batch) []byte {
		var rows []string
		for i := range b.Rows {
			rows = append(rows, rowObject(b, i, 'g'))
		}
		return []byte(`{"c0":"of no row","body":{"samples":[` + join(rows, ",") + `],"n":1}}`)
	}},
	{"csv", Input{Format: CSV}, nil, func(b *codec.Batch) []byte { return cells(b, ",", true) }},
	{"csv by other names", Input{Format: CSV, Separator: ";", Channels: map[string]string{"c0": `["c0"]`, "c1": "c1"}, Time: "ts", Stream: "$.stream_id"},
		func(b *codec.Batch) bool { return len(b.Times) > 0 && len(b.Keys) > 0 }, func(b *codec.Batch) []byte { return cells(b, ";", true) }},
	{"csv by position", Input{Format: CSV, Separator: "\t", Channels: map[string]string{"c0": "[0]", "c1": "[1]", "c2": "$[2]"}, Time: "[3]", Stream: "[4]"},
		func(b *codec.Batch) bool {
			return len(b.Times) > 0 && len(b.Keys) > 0 && len(b.Ends) == 0 && b.Rows > 0
		}, func(b *codec.Batch) []byte { return cells(b, "\t", false) }},
	{"influx", Input{Format: Influx}, nil, func(b *codec.Batch) []byte { return lines(b, "stream_id") }},
	{"influx by other names", Input{Format: Influx, Channels: map[string]string{"c0": "$.fields.c0", "c2": "c2"}, Stream: "$.tags.dev"},
		func(b *codec.Batch) bool { return len(b.Keys) > 0 }, func(b *codec.Batch) []byte { return lines(b, "dev") }},
	{"raw f32le", Input{Format: Raw}, bare, func(b *codec.Batch) []byte {
		var all []byte
		for _, x := range b.X {
			all = binary.LittleEndian.AppendUint32(all, math.Float32bits(x))
		}
		return all
	}},
	{"raw f64be in another order", Input{Format: Raw, RawType: "f64be", Channels: map[string]string{"c0": "[3]", "c1": "[0]", "c2": "[1]"}}, bare, func(b *codec.Batch) []byte {
		var all []byte
		for i := range b.Rows {
			for _, x := range []float32{b.X[3*i+1], b.X[3*i+2], 7, b.X[3*i]} {
				all = binary.BigEndian.AppendUint64(all, math.Float64bits(float64(x)))
			}
		}
		return all
	}},
}

// cells returns a batch as CSV.
func cells(b *codec.Batch, separator string, header bool) []byte {
	var s bytes.Buffer
	line := func(cells []string) { s.WriteString(strings.Join(cells, separator) + "\r\n") }
	if header {
		names := slices.Clone(channels)
		for _, m := range []struct {
			name string
			has  bool
		}{{"ts", len(b.Times) > 0}, {"stream_id", len(b.Keys) > 0}, {"end", len(b.Ends) > 0}} {
			if m.has {
				names = append(names, m.name)
			}
		}
		line(names)
	}
	for i := range b.Rows {
		var row []string
		for _, x := range b.X[i*len(channels):][:len(channels)] {
			row = append(row, text32(x, 'g'))
		}
		if len(b.Times) > 0 {
			row = append(row, fmt.Sprint(b.Times[i]))
		}
		if len(b.Keys) > 0 {
			row = append(row, strconv.Quote(b.Keys[b.Key[i]]))
		}
		if len(b.Ends) > 0 {
			row = append(row, fmt.Sprint(b.Ends[i]))
		}
		line(row)
	}
	return s.Bytes()
}

// lines returns a batch in line protocol.
func lines(b *codec.Batch, stream string) []byte {
	var s bytes.Buffer
	s.WriteString("# a comment\n")
	for i := range b.Rows {
		s.WriteString("machine,site=a\\ b")
		if len(b.Keys) > 0 {
			fmt.Fprintf(&s, ",%s=%s", stream, strings.ReplaceAll(b.Keys[b.Key[i]], " ", "\\ "))
		}
		s.WriteString(" note=\"x=1, y\"")
		for c, name := range channels {
			fmt.Fprintf(&s, ",%s=%s", name, text32(b.X[i*len(channels)+c], 'g'))
		}
		if len(b.Ends) > 0 {
			fmt.Fprintf(&s, ",end=%v", b.Ends[i])
		}
		if len(b.Times) > 0 {
			fmt.Fprintf(&s, " %d", b.Times[i])
		}
		s.WriteString("\n")
	}
	return s.Bytes()
}

// The same samples in each format and shape give the same slices as in Arrow, to the bit;
// format auto as well if it recognizes the shape.
func TestConformance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			d, fitted := newDecoder(t, s.in, codec.Reject), 0
			everything := s.in
			everything.Format = Auto
			all, aerr := New(everything, codec.Schema{Channels: channels})
			var got, want codec.Batch
			for trial := range 96 {
				b := random(rng, []int{0, 1, 2, 7, 300}[trial%5], trial&8 > 0, trial&16 > 0, trial&32 > 0)
				if s.fits != nil && !s.fits(b) {
					continue
				}
				fitted++
				enc, err := codec.NewInputEncoder(channels, codec.InputOptions{Times: len(b.Times) > 0, Ends: len(b.Ends) > 0, Keys: len(b.Keys) > 0})
				if err != nil {
					t.Fatal(err)
				}
				arrow, err := enc.Encode(b)
				if err != nil {
					t.Fatal(err)
				}
				if err := newDecoder(t, Input{}, codec.Reject).Decode(arrow, &want); err != nil {
					t.Fatal(err)
				}
				payload := s.write(b)
				if err := d.Decode(payload, &got); err != nil {
					t.Fatalf("%v\n%s", err, payload)
				}
				if diff := describeDifference(&got, &want); diff != "" {
					t.Fatalf("%s\n%s", diff, payload)
				}
				if s.in.Format == Raw {
					continue
				}
				if aerr != nil {
					t.Fatal(aerr)
				}
				if err := all.Decode(payload, &got); err != nil {
					t.Fatalf("auto: %v\n%s", err, payload)
				}
				if diff := describeDifference(&got, &want); diff != "" {
					t.Fatalf("auto: %s\n%s", diff, payload)
				}
			}
			if fitted < 5 {
				t.Errorf("%d batches only", fitted)
			}
		})
	}
}

// describeDifference compares batches bit for bit.
func describeDifference(got, want *codec.Batch) string {
	bits := func(x []float32) (b []uint32) {
		for _, f := range x {
			b = append(b, math.Float32bits(f))
		}
		return b
	}
	id := func(b *codec.Batch) (ids []string) {
		for _, k := range b.Key {
			ids = append(ids, b.Keys[k])
		}
		return ids
	}
	switch {
	case got.Rows != want.Rows:
		return fmt.Sprintf("%d rows, want %d", got.Rows, want.Rows)
	case !slices.Equal(bits(got.X), bits(want.X)):
		return fmt.Sprintf("samples %v, want %v", got.X, want.X)
	case !slices.Equal(got.Times, want.Times):
		return fmt.Sprintf("times %v, want %v", got.Times, want.Times)
	case !slices.Equal(got.Ends, want.Ends):
		return fmt.Sprintf("ends %v, want %v", got.Ends, want.Ends)
	case !slices.Equal(got.Keys, want.Keys) || !slices.Equal(id(got), id(want)):
		return fmt.Sprintf("streams %q of %q, want %q of %q", id(got), got.Keys, id(want), want.Keys)
	case !slices.Equal(got.Missing, want.Missing):
		return fmt.Sprintf("missing %v, want %v", got.Missing, want.Missing)
	}
	return ""
}

// The samples for null, a word, a bool, a whole number and a quoted number.
func TestJSONValues(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		text string
		want float32
	}{
		{`null`, nan}, {`"NaN"`, nan}, {`"-Infinity"`, nan}, {`1e39`, nan}, {`-1e400`, nan}, {`true`, 1}, {`false`, 0}, {`"true"`, 1},
		{`"2.5"`, 2.5}, {`"+.5"`, .5}, {`16777217`, 16777216}, {`-0`, float32(math.Copysign(0, -1))}, {`1e-46`, 0},
		{`0.1`, .1}, {`7038531e-32`, 7038531e-32}, {`1.00000017881393432617187499`, math.Nextafter32(1, 2)}, // just below the middle: rounded once
		{`9007199254740993`, 9007199254740992},
	} {
		var b codec.Batch
		d := newDecoder(t, Input{Format: JSON}, codec.Hold, "v")
		if err := d.Decode([]byte(`{"v":`+c.text+`}`), &b); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		isNaN := c.want != c.want
		if got := b.X[0]; math.Float32bits(got) != math.Float32bits(c.want) && !(isNaN && got != got) || (len(b.Missing) == 1) != isNaN {
			t.Errorf("%s: %v, missing %v, want %v", c.text, got, b.Missing, c.want)
		}
	}
}

// Scale and offset: each operation rounded to float64, then once to float32.
func TestScale(t *testing.T) {
	in := Input{Format: JSON, Channels: map[string]string{"a": "$.raw * 0.1 - 40", "b": "@.n + 2", "c": "m * 2"}}
	d := newDecoder(t, in, codec.Reject, "a", "b", "c")
	var b codec.Batch
	if err := d.Decode([]byte(`{"raw":653,"n":"3.3","m":true}`), &b); err != nil {
		t.Fatal(err)
	}
	raw, tenth, n := 653.0, 0.1, 3.3
	product := float64(raw * tenth)
	want := []float32{float32(float64(product - 40)), float32(float64(n + 2)), 2}
	if !slices.Equal(b.X, want) {
		t.Errorf("%v, want %v", b.X, want)
	}
}

// The notations of a time, and a step for several samples with one time.
func TestTimes(t *testing.T) {
	const s = int64(time.Second)
	for _, c := range []struct {
		text, unit string
		want       []int64
	}{
		{`1`, "ns", []int64{1}}, {`1`, "s", []int64{s}}, {`1.5`, "s", []int64{s * 3 / 2}}, {`-1.5`, "s", []int64{-s * 3 / 2}},
		{`1700000000.123456789123`, "s", []int64{1700000000123456789}}, {`1.7e12`, "ms", []int64{1700000000000000000}}, {`1e-3`, "s", []int64{1e6}},
		{`5e-1`, "ns", []int64{0}}, {`"1970-01-01T00:00:01Z"`, "ns", []int64{s}}, {`"1970-01-01 01:00:01.5+01:00"`, "ns", []int64{s * 3 / 2}},
		{`"1970-01-01T00:00:01"`, "ns", []int64{s}}, {`"12"`, "us", []int64{12000}}, {`null`, "s", []int64{codec.NoTime}},
	} {
		var b codec.Batch
		d := newDecoder(t, Input{Format: JSON, TimeUnit: c.unit}, codec.Reject, "v")
		if err := d.Decode([]byte(`{"v":1,"ts":`+c.text+`}`), &b); err != nil || !slices.Equal(b.Times, c.want) {
			t.Errorf("%s %s: %v, %v, want %v", c.text, c.unit, b.Times, err, c.want)
		}
	}
	var b codec.Batch
	d := newDecoder(t, Input{Format: JSON, TimeUnit: "ms", TimeStep: 250 * time.Microsecond, Rows: "$.x", Time: "$.at", Stream: "$.id", End: "$.end"}, codec.Reject, "v")
	if err := d.Decode([]byte(`{"at":2,"x":[[5],[6],[7]],"end":true,"id":9} {"x":[{"v":[1,2]}],"id":"8","at":1,"end":false}`), &b); err != nil {
		t.Fatal(err)
	}
	want := codec.Batch{Rows: 5, X: []float32{5, 6, 7, 1, 2}, Times: []int64{2e6, 2.25e6, 2.5e6, 1e6, 1.25e6}, Ends: []bool{false, false, true, false, false},
		Keys: []string{"9", "8"}, Key: []int32{0, 0, 0, 1, 1}}
	if s := describeDifference(&b, &want); s != "" {
		t.Error(s)
	}
}

// A message of a known size costs no allocation, or only the allocations of its parser;
// auto adds none.
func TestAllocations(t *testing.T) {
	rng, tried := rand.New(rand.NewPCG(3, 4)), map[Format]bool{}
	for _, b := range []*codec.Batch{random(rng, 100, true, true, true), random(rng, 100, true, false, true), random(rng, 100, false, false, false)} {
		for _, s := range shapes {
			if s.fits != nil && !s.fits(b) {
				continue
			}
			tried[s.in.Format] = true
			payload, inputs := s.write(b), []Input{s.in}
			if s.in.Format != Raw {
				inputs = append(inputs, s.in)
				inputs[1].Format = Auto
			}
			for _, in := range inputs {
				d := newDecoder(t, in, codec.Reject)
				var got codec.Batch
				n := testing.AllocsPerRun(20, func() {
					if err := d.Decode(payload, &got); err != nil {
						t.Fatal(err)
					}
				})
				if want := most[s.in.Format]; n > want {
					t.Errorf("%s, read as %s: %v allocations for a message of 100 rows, want at most %v", s.name, in.Format, n, want)
				}
			}
		}
	}
	if len(tried) != len(most) {
		t.Errorf("tried %v only", tried)
	}
}

// most is the largest number of allocations for a message of 100 rows.
var most = map[Format]float64{JSON: 0, CSV: 120, Influx: 2, Raw: 0}
