package formats

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

var update = flag.Bool("update", false, "write what is said of wrong messages to testdata/wrong")

// wrongs are messages that each format refuses, for a model of the channels a and b, with
// their settings if any.
var wrongs = map[Format][]struct {
	in      Input
	payload string
}{
	Auto: {
		{Input{}, ""}, {Input{}, " \n"}, {Input{}, "hello"}, {Input{}, "\x00\x01\x02\x03"}, {Input{}, "PAR1...."}, {Input{}, "ARROW1\x00\x00"},
		{Input{}, "\x1f\x8b\x08\x00"}, {Input{}, "\x28\xb5\x2f\xfd\x00"}, {Input{}, "PK\x03\x04"}, {Input{}, "Obj\x01"}, {Input{}, "<xml><a>1</a></xml>"},
		{Input{}, "\xff\xff\xff\xff\x00"}, {Input{}, `{"a":1}`}, {Input{}, "[1,2"}, {Input{}, "a;b\n1;2"}, {Input{}, "a,c\n1,2"}, {Input{}, "m a=1"}, {Input{}, "21.5"},
		{Input{Channels: map[string]string{"a": "$.x.a", "b": "$.x.b"}}, "a,b\n1,2"}, {Input{Channels: map[string]string{"a": "[0]", "b": "[1]"}}, "m a=1,b=2"},
	},
	JSON: {
		{Input{}, ""}, {Input{}, "   "}, {Input{}, `{"a":1,"b":2`}, {Input{}, `{"a":1,,"b":2}`}, {Input{}, `{'a':1}`}, {Input{}, `{"a":NaN,"b":2}`}, {Input{}, `{"a":nan,"b":2}`}, {Input{}, `{"a":1,"b":-Infinity}`}, {Input{}, `{"a":nil,"b":2}`}, {Input{}, `{"a":1,"b":2,"a":3}`},
		{Input{}, "{\"a\":1,\"b\":2,\"\xff\":3}"}, {Input{}, `{"a":1}`}, {Input{}, `{"A":1,"B":2}`}, {Input{}, `{"v":{"a":1,"b":2},"t":5}`}, {Input{}, `{"v":{"a":1},"b.c":2}`}, {Input{}, `{"a":"high","b":2}`},
		{Input{}, `{"a":{"value":1},"b":2}`}, {Input{}, `{"a":[[1]],"b":2}`}, {Input{}, `{"a":[1,2],"b":[1]}`}, {Input{}, `{"a":0x10,"b":2}`}, {Input{}, `{"a":"0x10","b":"1_000"}`}, {Input{}, `7`}, {Input{}, `"a"`}, {Input{}, `null`},
		{Input{}, `[1,2,3]`}, {Input{}, `[[1,2],[3]]`}, {Input{}, `[{"a":1,"b":2},5]`}, {Input{}, `{"a":[1,2],"b":[3,4],"ts":5}`}, {Input{}, `{"a":1,"b":2,"ts":"yesterday"}`}, {Input{}, `{"a":1,"b":2,"ts":"2016-12-30T23:59:60Z"}`},
		{Input{}, `{"a":1,"b":2,"ts":1e30}`}, {Input{}, `{"a":1,"b":2,"stream_id":""}`}, {Input{}, `{"a":1,"b":2,"stream_id":1.5}`}, {Input{}, `{"a":1,"b":2,"stream_id":null}`},
		{Input{}, `[{"a":1,"b":2,"stream_id":"x"},{"a":1,"b":2}]`}, {Input{}, `{"a":1,"b":2,"end":"yes"}`}, {Input{}, `{"a":[],"b":[],"end":true}`}, {Input{}, `{"a":null,"b":2}`}, {Input{}, `{"a":1e39,"b":2}`},
		{Input{Rows: "$.rows"}, `{"samples":[{"a":1,"b":2}]}`}, {Input{Rows: "$.rows"}, `{"rows":{"a":1,"b":2}}`}, {Input{Time: "$.t"}, `{"a":1,"b":2}`}, {Input{Stream: "$.dev"}, `{"a":1,"b":2}`},
		{Input{Channels: map[string]string{"a": "$.x[1]", "b": "$.y"}}, `{"x":[1],"y":2}`}, {Input{}, "a,b\n1,2\n"}, {Input{}, "m a=1,b=2 5"}, {Input{}, strings.Repeat("[", 20000)},
	},
	CSV: {
		{Input{}, ""}, {Input{}, "a"}, {Input{}, "1,2\n3,4\n"}, {Input{}, "a,c\n1,2\n"}, {Input{}, "A,B\n1,2\n"}, {Input{}, "# logger v2\na,b\n1,2\n"}, {Input{}, "a;b\n1;2\n"}, {Input{}, "a,b\n1\n"}, {Input{}, "a,b\n1,2,3\n"}, {Input{}, "a,b,a\n1,2,3\n"},
		{Input{}, "a,b\n1,high\n"}, {Input{}, "a,b\n1,0x10\n"}, {Input{}, "a,b\n1,\n"}, {Input{}, "a,b\n1,NaN\n"}, {Input{}, "a,b\n\"1,2\n"}, {Input{}, "a,b\n1,2\"3\n"}, {Input{}, "a,b,ts\n1,2,soon\n"},
		{Input{}, "a,b,stream_id\n1,2,\n"}, {Input{}, "a,b,end\n1,2,yes\n"}, {Input{}, "a,b,stream_id\n1,2,\xff\n"}, {Input{Time: "t"}, "a,b\n1,2\n"}, {Input{Stream: "dev"}, "a,b\n1,2\n"},
		{Input{Channels: map[string]string{"a": "[0]", "b": "[5]"}}, "1,2\n"}, {Input{Channels: map[string]string{"a": "[0]", "b": "[1]"}}, "a,b\n1,2\n"}, {Input{}, `{"a":1,"b":2}`}, {Input{}, "m a=1,b=2 5"},
	},
	Influx: {
		{Input{}, "m"}, {Input{}, "m a"}, {Input{}, "m a="}, {Input{}, "m a=1"}, {Input{}, "m,a=1,b=2 c=3"}, {Input{}, "m A=1,B=2"}, {Input{}, "m a=1,b=high"}, {Input{}, `m a=1,b="high"`}, {Input{}, "m a=1,b=1.2.3"},
		{Input{}, "m a=1,b=2 soon"}, {Input{}, "m a=1,b=2 5 6"}, {Input{}, "m a=1,b=2 99999999999999999999"}, {Input{}, "m a=1,b=2,a=3"}, {Input{}, `m a=1,b="2`}, {Input{}, "m,x a=1,b=2"}, {Input{}, "m, a=1,b=2"},
		{Input{}, " a=1,b=2"}, {Input{}, "m a=1,b=2,end=5"}, {Input{}, "m a=1,b=truth"}, {Input{}, "m,stream_id=1 a=1,b=2\nm a=1,b=2"}, {Input{}, "m,x=\xff a=1,b=2"}, {Input{}, "m a=1e39,b=2"},
		{Input{Stream: "dev"}, "m a=1,b=2"}, {Input{Time: "t"}, "m a=1,b=2 5"}, {Input{}, `{"a":1,"b":2}`}, {Input{}, "a,b\n1,2\n"},
	},
	SenML: {
		{Input{}, ""}, {Input{}, `{"n":"a","v":1}`}, {Input{}, `[{"n":"a","v":1}`}, {Input{}, `[{"n":"a","v":1}]`}, {Input{}, `[{"n":"a","v":1},5]`}, {Input{}, `[{"n":"a","v":1},{"n":"b","v":1}] x`}, {Input{}, `[{"n":"a","v":"1"}]`},
		{Input{}, `[{"n":"a","v":NaN}]`}, {Input{}, `[{"n":7,"v":1}]`}, {Input{}, `[{"n":"a","n":"a","v":1}]`}, {Input{}, `[{"n":"a","vs":"high"}]`}, {Input{}, `[{"n":"a","vd":"aGk"}]`}, {Input{}, `[{"n":"a","v":1},{"n":"a","v":2}]`},
		{Input{}, `[{"bn":"x/","n":"a","v":1},{"bn":"y/","n":"a","v":2}]`}, {Input{}, `[{"n":"a","u":"Cel","v":1},{"n":"a","u":"K","t":1,"v":2}]`}, {Input{}, `[{"bver":11,"n":"a","v":1}]`}, {Input{}, `[{"n":"a","v":1,"mustknow_":1}]`},
		{Input{}, `[{"n":"a","v":1,"t":"now"}]`}, {Input{}, `[{"n":"a","v":1,"t":1e30}]`}, {Input{}, `[{"bt":[],"n":"a","v":1}]`}, {Input{}, `[{"bv":"x","n":"a","v":1}]`}, {Input{}, `[{"n":"a","v":1},{"n":"b","v":2,"t":1}]`}, {Input{Stream: "bn"}, `[{"n":"a","v":1},{"n":"b","v":2}]`},
		{Input{}, "\x81\xa2\x00\x61a\x02"}, {Input{}, "\x81\xa2\x00\x61a\x02\x61x"}, {Input{}, "\x81\xa2\x00\x01\x02\x01"}, {Input{}, "\x81\x01"}, {Input{}, "\x81\xa2\x00\x61a\x00\x61a"}, {Input{}, "\x81\xa1\x62x_\x01"}, {Input{}, "\x81\xa2\x00\x61a\x02\xc5\x82\x01\x01"}, {Input{}, "a,b\n1,2\n"},
	},
	Raw: {
		{Input{}, "1"}, {Input{}, "1234567"}, {Input{}, "123456789"}, {Input{}, "\x00\x00\xc0\x7f\x00\x00\x00\x00"}, {Input{}, "\x00\x00\x80\x7f\x00\x00\x00\x00"}, {Input{}, `{"a":1,"b":2}`}, {Input{}, "a,b\n1,22\n"}, {Input{}, "m a=1,b=2"},
		{Input{RawType: "i8"}, "123"}, {Input{RawType: "u8"}, "1"}, {Input{RawType: "i16be"}, "12345"}, {Input{RawType: "i16le"}, "12"}, {Input{RawType: "u16be"}, "1234567"}, {Input{RawType: "u16le"}, "1"},
		{Input{RawType: "i32le"}, "1234"}, {Input{RawType: "i32be"}, "12345"}, {Input{RawType: "u32le"}, "1234567890"}, {Input{RawType: "f64le"}, "12345678"}, {Input{RawType: "f64be"}, "\x7f\xf0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{Input{Channels: map[string]string{"a": "[0]", "b": "[2]"}}, "12345678"},
	},
}

// The error of each wrong message is in testdata/wrong, as reviewed.
func TestWrong(t *testing.T) {
	for f, all := range wrongs {
		if len(all) < 20 {
			t.Errorf("%s: %d wrong messages, want 20", f, len(all))
		}
		var said bytes.Buffer
		for _, w := range all {
			in := w.in
			in.Format = f
			var b codec.Batch
			err := newDecoder(t, in, codec.Reject, "a", "b").Decode([]byte(w.payload), &b)
			if err == nil {
				t.Errorf("%s: %q: taken as %+v", f, w.payload, b)
				continue
			}
			if b.Rows+len(b.X)+len(b.Times)+len(b.Keys) > 0 {
				t.Errorf("%s: %q: the batch is not empty", f, w.payload)
			}
			if len(err.Error()) > 1000 || strings.Contains(err.Error(), "BUG") || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("%s: %q: %v", f, w.payload, err)
			}
			payload := w.payload
			if len(payload) > 100 {
				payload = payload[:20] + "... and so on"
			}
			with := ""
			if w.in.Text() != (Input{}).Text() || len(w.in.Channels)+len(w.in.Rows+w.in.Time+w.in.Stream+w.in.RawType) > 0 {
				in.TimeUnit, in.Separator = "", ""
				with = "   " + in.Text() + "\n"
			}
			fmt.Fprintf(&said, "%s\n%s   %s\n\n", strconv.QuoteToGraphic(payload), with, strings.ToValidUTF8(err.Error(), "?"))
		}
		path := filepath.Join("testdata", "wrong", string(f)+".txt")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, said.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, said.Bytes()) {
			t.Errorf("%s differs from what is said now (%v); look at both after: go test ./internal/formats -run TestWrong -update\n%s", path, err, said.Bytes())
		}
	}
}

// Inputs without a possible decoder, and the reason.
func TestWrongInputs(t *testing.T) {
	m := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i]] = pairs[i+1]
		}
		return all
	}
	for _, c := range []struct {
		in   Input
		want string
	}{
		{Input{Format: "xml"}, `input.format is "xml"`},
		{Input{Format: JSON, TimeUnit: "h"}, `input.time_unit is "h"`},
		{Input{Format: JSON, TimeStep: -1}, "input.time_step"},
		{Input{Format: CSV, Separator: ",,"}, "input.csv_separator"},
		{Input{Format: Raw, RawType: "f16"}, `input.raw_type is "f16"`},
		{Input{Format: Arrow, Time: "$.t"}, "input.time does nothing with input.format arrow"},
		{Input{Format: Raw, Stream: "$.t"}, "input.stream does nothing"},
		{Input{Format: CSV, Rows: "$.t"}, "input.rows does nothing"},
		{Input{Format: JSON, Channels: m("z", "$.z")}, `input.channels names "z", but the model's channels are a, b`},
		{Input{Format: JSON, Channels: m("a", "$.*")}, "wildcards"},
		{Input{Format: JSON, Channels: m("a", "$..x")}, "wildcards"},
		{Input{Format: JSON, Channels: m("a", "$.x*2")}, "one blank before and after"},
		{Input{Format: JSON, Channels: m("a", "$.x * 0")}, "a scale that is not 0"},
		{Input{Format: JSON, Channels: m("a", "")}, "want a source"},
		{Input{Format: JSON, Time: "$.t * 2"}, "input.time: "},
		{Input{Format: JSON, Channels: m("a", "$.x", "b", "$.x")}, "another setting names $.x"},
		{Input{Format: JSON, Channels: m("a", "$.x", "b", "$.x.y")}, "$.x"},
		{Input{Format: JSON, Channels: m("a", "$.x"), Time: "$.x"}, "input.time: another setting names $.x"},
		{Input{Format: JSON, Rows: "$.r", Channels: m("a", "$.x")}, "begin it with @"},
		{Input{Format: CSV, Channels: m("a", "$.x.y")}, "the name of a column"},
		{Input{Format: CSV, Channels: m("a", "[1]", "b", "[1]")}, `"[1]", which is input.channels of "a"`},
		{Input{Format: CSV, Channels: m("a", "[0]", "b", "[1]"), Time: "t"}, "want names for all"},
		{Input{Format: Influx, Channels: m("a", "[1]")}, "in line protocol"},
		{Input{Format: Influx, Channels: m("a", "b")}, "another setting has this name"},
		{Input{Format: Raw, Channels: m("a", "[1]")}, "the position of each channel"},
		{Input{Format: Raw, Channels: m("a", "[1]", "b", "[1]")}, "another channel is at [1]"},
		{Input{Format: Auto, Channels: m("a", "$.x", "b", "$.x")}, "another setting names"},
	} {
		_, err := New(c.in, codec.Schema{Channels: []string{"a", "b"}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.in, err, c.want)
		}
	}
}

// An input survives its text, and inputs with the same meaning have the same text.
func TestText(t *testing.T) {
	for _, in := range []Input{
		{}, {Format: Auto}, {Format: JSON}, {Format: Raw, RawType: "i16be"},
		{Format: JSON, Channels: map[string]string{"b": "$.x * 2", "a": `$["<&>"]`}, Rows: "$.r", Time: "@.t", TimeUnit: "s", TimeStep: time.Second, Stream: "$.s", End: "@.e"},
	} {
		again, err := Parse(in.Text())
		if err != nil || again.Text() != in.Text() || len(again.Differs(in)) > 0 {
			t.Errorf("%s: %s, %v", in.Text(), again.Text(), err)
		}
	}
	if a, b := (Input{Format: JSON, Separator: ";", RawType: "u8", TimeUnit: "ns"}), (Input{Format: JSON}); a.Text() != b.Text() || len(a.Differs(b)) > 0 {
		t.Errorf("%s, %s", a.Text(), b.Text())
	}
	if in, err := Parse(""); err != nil || in.Format != Arrow {
		t.Errorf("%+v, %v", in, err)
	}
	for _, text := range []string{"x", `{"format":"msgpack"}`, `{"format":"json","unknown":1}`} {
		if in, err := Parse(text); err == nil {
			t.Errorf("%s: read as %+v", text, in)
		}
	}
	if in := (Input{Format: Auto, TimeUnit: "ns", Separator: ",", RawType: "f32le"}); !in.IsPlain() || (Input{Format: Auto, TimeUnit: "s"}).IsPlain() {
		t.Error("plain is not what nobody has set")
	}
}

// A name with a dot is a name, not a path. The error for a message with the path names
// the setting.
func TestNameWithADot(t *testing.T) {
	var b codec.Batch
	err := newDecoder(t, Input{Format: JSON}, codec.Reject, "a.b").Decode([]byte(`{"a":{"b":1},"c.d":2}`), &b)
	want := `json: row 0 has no channel "a.b" ($["a.b"]), only a.b, ["c.d"]: set input.channels, such as {a.b: $.a.b}, or send the channel (null where it has no value, with input.non_finite: hold or zero)`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := newDecoder(t, Input{Format: JSON, Channels: map[string]string{"a.b": "$.a.b"}}, codec.Reject, "a.b").Decode([]byte(`{"a":{"b":1}}`), &b); err != nil {
		t.Error(err)
	}
}
