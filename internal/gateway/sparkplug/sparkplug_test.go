package sparkplug

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

var update = flag.Bool("update", false, "write what is said of wrong messages to testdata/wrong.txt")

// two maps the channels x and y of a model to metrics.
type two struct{}

func (two) Channel(name string) (int, bool) {
	i := strings.Index("axis/x axis/y", name)
	return i / 7, i >= 0 && len(name) == 6
}
func (two) Name(c int) string { return []string{"axis/x", "axis/y"}[c] }
func (two) Sample(_ int, v any) (float32, bool) {
	switch v := v.(type) {
	case float32:
		return v, true
	case float64:
		return float32(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int8:
		return float32(v), true
	case int32:
		return float32(v), true
	case int64:
		return float32(v), true
	case uint64:
		return float32(v), true
	}
	return 0, false
}

// set is one metric of a test message.
type set struct {
	name       string
	alias      uint64
	ms         uint64
	kind       uint64
	historical bool
	null       bool
	properties []byte
	value      any
}

func writePayload(seq int, ms uint64, all ...set) []byte {
	var b []byte
	varint := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	if ms > 0 {
		b = varint(b, 1, ms)
	}
	for _, s := range all {
		var m []byte
		if s.name != "" {
			m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), s.name)
		}
		if s.alias > 0 {
			m = varint(m, 2, s.alias)
		}
		if s.ms > 0 {
			m = varint(m, 3, s.ms)
		}
		if s.kind > 0 {
			m = varint(m, 4, s.kind)
		}
		if s.historical {
			m = varint(m, 5, 1)
		}
		if s.null {
			m = varint(m, 7, 1)
		}
		if s.properties != nil {
			m = protowire.AppendBytes(protowire.AppendTag(m, 9, protowire.BytesType), s.properties)
		}
		switch v := s.value.(type) {
		case uint32:
			m = varint(m, 10, uint64(v))
		case uint64:
			m = varint(m, 11, v)
		case float32:
			m = protowire.AppendFixed32(protowire.AppendTag(m, 12, protowire.Fixed32Type), math.Float32bits(v))
		case float64:
			m = protowire.AppendFixed64(protowire.AppendTag(m, 13, protowire.Fixed64Type), math.Float64bits(v))
		case bool:
			m = varint(m, 14, protowire.EncodeBool(v))
		case string:
			m = protowire.AppendString(protowire.AppendTag(m, 15, protowire.BytesType), v)
		case protowire.Number: // the wire field of a value
			m = protowire.AppendBytes(protowire.AppendTag(m, v, protowire.BytesType), []byte{1, 2})
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), m)
	}
	if seq >= 0 {
		b = varint(b, 3, uint64(seq))
	}
	return b
}

// rig is a host without a gateway.
type rig struct {
	t    testing.TB
	host *Host
}

func newRig(t testing.TB, o Options) *rig {
	o.Groups, o.Channels, o.Count = "+", two{}, 2
	h, err := New(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, h}
}

func (r *rig) sendMessage(name string, b []byte) (action, error) {
	t, err := r.host.parseTopic(namespace + "/" + name)
	if err != nil {
		return action{}, err
	}
	p, err := decodePayload(b)
	if err != nil {
		return action{}, err
	}
	n, err := r.host.findNode(t)
	if err != nil {
		return action{}, err
	}
	a := n.handleMessage(t, p)
	return a, a.refused
}

// describe returns the result of a message as text.
func (a action) describe() string {
	var words []string
	for _, p := range a.parts {
		word := p.Key
		if p.Gap {
			word += " gap"
		}
		if p.End {
			word += " end"
		}
		for i, at := range p.Times {
			word += fmt.Sprintf(" %d:%v", at/msPerNs, p.X[2*i:2*i+2])
		}
		words = append(words, word)
	}
	if a.requestBirth {
		words = append(words, "rebirth")
	}
	for _, err := range append(a.wrong, a.refused) {
		if err != nil {
			words = append(words, "refused")
		}
	}
	return strings.Join(words, "; ")
}

func (r *rig) expectResult(name string, b []byte, result string) {
	r.t.Helper()
	a, err := r.sendMessage(name, b)
	if err != nil && a.refused == nil {
		r.t.Fatal(err)
	}
	if got := a.describe(); got != result {
		r.t.Errorf("%s: %q, want %q (%v)", name, got, result, append(a.wrong, a.refused))
	}
}

func nodeBirth(seq, bdseq int) []byte {
	return writePayload(seq, 1000, set{name: "bdSeq", kind: int64Type, value: uint64(bdseq)}, set{name: "Node Control/Rebirth", kind: boolType, value: false})
}

func deviceBirth(seq int, x, y float32) []byte {
	return writePayload(seq, 1000, set{name: "axis/x", alias: 1, kind: 9, value: x}, set{name: "else", alias: 5, kind: datasetType, value: protowire.Number(17)}, set{name: "axis/y", alias: 2, kind: 9, value: y})
}

func deviceData(seq int, ms uint64, alias uint64, v float32) []byte {
	return writePayload(seq, ms, set{alias: alias, value: v})
}

func TestSession(t *testing.T) {
	r := newRig(t, Options{})
	r.expectResult("G/DDATA/n/d", deviceData(5, 1, 1, 1), "rebirth; refused")
	r.expectResult("G/NDEATH/n", nodeBirth(-1, 1), "")
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.expectResult("G/DDATA/n/d", deviceData(1, 1, 1, 1), "rebirth; refused")
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.expectResult("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
	r.expectResult("G/DBIRTH/n/other", writePayload(2, 1, set{name: "speed", value: float32(1)}), "refused")
	r.expectResult("G/DDATA/n/other", writePayload(3, 1, set{name: "speed", value: float32(1)}), "")
	r.expectResult("G/NDATA/n", writePayload(4, 1, set{name: "up", value: true}), "")
	r.expectResult("G/DDATA/n/d", deviceData(5, 2000, 1, 11), "G/n/d gap 2000:[11 20]") // samples of the previous run are missing
	r.expectResult("G/DDATA/n/d", writePayload(6, 2005, set{alias: 2, ms: 2002, value: float32(22)}, set{alias: 1, ms: 2001, value: float32(12)}, set{alias: 2, ms: 2001, value: float32(21)}, set{alias: 9, value: float32(1)}),
		"G/n/d 2001:[12 21] 2002:[12 22]")
	r.expectResult("G/DDATA/n/d", writePayload(7, 2006, set{name: "axis/y", null: true}), "G/n/d 2006:[12 NaN]")
	r.expectResult("G/DDATA/n/d", deviceData(9, 2010, 2, 23), "G/n/d gap 2010:[12 23]; rebirth; refused") // 8 is lost
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")                                                     // requested: no samples are lost
	r.expectResult("G/DBIRTH/n/d", deviceBirth(1, 14, 24), "")
	r.expectResult("G/DDATA/n/d", deviceData(2, 2020, 2, 25), "G/n/d 2020:[14 25]")
	r.expectResult("G/NDEATH/n", nodeBirth(-1, 0), "") // of an earlier session
	r.expectResult("G/DDATA/n/d", deviceData(3, 2021, 2, 26), "G/n/d 2021:[14 26]")
	r.expectResult("G/NDEATH/n", nodeBirth(-1, 1), "")
	r.expectResult("G/DDATA/n/d", deviceData(4, 2022, 2, 26), "rebirth; refused")
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 2), "")
	r.expectResult("G/DBIRTH/n/d", deviceBirth(1, 15, 30), "")
	r.expectResult("G/DDATA/n/d", writePayload(2, 2030, set{alias: 2, ms: 2024, historical: true, value: float32(27)}, set{alias: 1, ms: 2020, historical: true, value: float32(1)}, set{alias: 1, ms: 2029, value: float32(16)}),
		"G/n/d gap 2024:[14 27] 2029:[16 30]; refused")
	r.expectResult("G/DDEATH/n/d", writePayload(3, 1), "")
	r.expectResult("G/DDATA/n/d", deviceData(4, 2040, 2, 26), "rebirth; refused")
	r.expectResult("G/DBIRTH/n/d", deviceBirth(5, 1, 2), "")
	r.expectResult("G/DDATA/n/d", deviceData(6, 2041, 2, 3), "G/n/d gap 2041:[1 3]")
}

// The number seq restarts after 255, and a node's own metrics may be the channels.
func TestSeq(t *testing.T) {
	r := newRig(t, Options{})
	r.expectResult("G/NBIRTH/n", writePayload(254, 1, set{name: "axis/x", value: float32(1)}, set{name: "axis/y", value: float32(2)}), "")
	r.expectResult("G/NDATA/n", writePayload(255, 5, set{name: "axis/x", value: float32(3)}), "G/n gap 5:[3 2]")
	r.expectResult("G/NDATA/n", writePayload(0, 6, set{name: "axis/x", value: float32(4)}), "G/n 6:[4 2]")
	r.host.MarkLost() // the gateway's own connection
	r.expectResult("G/NDATA/n", writePayload(1, 7, set{name: "axis/x", value: float32(5)}), "G/n gap 7:[5 2]; rebirth")
}

func TestTypes(t *testing.T) {
	r := newRig(t, Options{})
	r.expectResult("G/NBIRTH/n", writePayload(0, 1, set{name: "axis/x", alias: 1, kind: int8Type, value: uint32(1)}, set{name: "axis/y", alias: 2, kind: int64Type, value: uint64(1)}), "")
	r.expectResult("G/NDATA/n", writePayload(1, 5, set{alias: 1, value: uint32(0xff)}, set{alias: 2, value: uint64(math.MaxUint64)}), "G/n gap 5:[-1 -1]")
	r.expectResult("G/NDATA/n", writePayload(2, 6, set{alias: 1, kind: int32Type, value: uint32(0xfffffffe)}, set{alias: 2, kind: uint64Type, value: uint64(7)}), "G/n 6:[-2 7]")
	r.expectResult("G/NDATA/n", writePayload(3, 7, set{alias: 1, kind: 10, value: 0.1}, set{alias: 2, kind: boolType, value: true}), "G/n 7:[0.1 1]")
}

// makeProperty returns a set of two properties: an unrelated property, and a named property with
// its value in a field of PropertyValue.
func makeProperty(name string, num protowire.Number, value any) []byte {
	v := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	switch value := value.(type) {
	case int:
		v = protowire.AppendVarint(protowire.AppendTag(v, num, protowire.VarintType), uint64(value))
	case string:
		v = protowire.AppendString(protowire.AppendTag(v, num, protowire.BytesType), value)
	}
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "engUnit")
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), name)
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), protowire.AppendString(protowire.AppendTag(nil, 8, protowire.BytesType), "mm/s"))
	return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), v)
}

// A value without good quality is missing, in data and in births.
func TestQuality(t *testing.T) {
	r := newRig(t, Options{})
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.expectResult("G/DBIRTH/n/d", writePayload(1, 1, set{name: "axis/x", alias: 1, value: float32(1), properties: makeProperty("Quality", 3, 192)}, set{name: "axis/y", alias: 2, value: float32(2), properties: makeProperty("Quality", 3, 500)}), "")
	for i, c := range []struct {
		properties []byte
		told       string
	}{
		{nil, "G/n/d gap 2:[7 NaN]"},
		{makeProperty("Quality", 3, 192), "G/n/d 3:[7 NaN]"},
		{makeProperty("Quality", 3, 0), "G/n/d 4:[NaN NaN]"},
		{makeProperty("Quality", 3, 500), "G/n/d 5:[NaN NaN]"},
		{makeProperty("Quality", 4, 192), "G/n/d 6:[7 NaN]"},
		{makeProperty("Quality", 3, 24), "G/n/d 7:[NaN NaN]"},
		{makeProperty("quality", 3, 0), "G/n/d 8:[7 NaN]"}, // a custom property of the device
		{makeProperty("Quality", 8, "bad"), "refused"},
		{makeProperty("Quality", 3, nil), "refused"},
	} {
		r.expectResult("G/DDATA/n/d", writePayload(i+2, uint64(i+2), set{alias: 1, value: float32(7), properties: c.properties}), c.told)
	}
	r.expectResult("G/DDATA/n/d", writePayload(11, 20, set{alias: 2, value: float32(8), properties: makeProperty("Quality", 3, 192)}), "G/n/d gap 20:[7 8]")
}

func TestDeathEnds(t *testing.T) {
	r := newRig(t, Options{End: true, Period: 10 * time.Millisecond})
	r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.expectResult("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
	r.expectResult("G/DDATA/n/d", deviceData(2, 995, 1, 11), "")
	r.expectResult("G/NDEATH/n", nodeBirth(-1, 1), "G/n/d gap 1000:[11 20]; G/n/d end")
	r.expectResult("G/NDEATH/n", nodeBirth(-1, 1), "")
}

// wrongs are messages that the host refuses after the birth of a node and a device.
var wrongMessages = []struct {
	name string
	b    []byte
}{
	{"G/NDATA", nil},
	{"G/NDATA/n/d", nil},
	{"G/DDATA/n", nil},
	{"G/DDATA/n/d/e", nil},
	{"G/DATA/n", nil},
	{"H/NDATA/n", nil},
	{"G/DDATA/n/d", []byte("{\"x\": 1}")},
	{"G/DDATA/n/d", []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x0f}},
	{"G/DDATA/n/d", []byte{0x0a, 0x00}},
	{"G/DDATA/n/d", []byte{0x12, 0x02, 0x08, 0x01}},
	{"G/DDATA/n/d", append(protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), "SPBV1.0_COMPRESSED"), 0x18, 2)},
	{"G/DDATA/n/d", writePayload(-1, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", writePayload(7, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", writePayload(2, 0, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", writePayload(2, math.MaxUint64, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: "high"})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: protowire.Number(17)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: protowire.Number(18)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: protowire.Number(16)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, kind: 99, value: uint32(1)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: float32(1), properties: makeProperty("Quality", 8, "bad")})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, value: float32(1), properties: []byte{0x0a, 1}})},
	{"G/DDATA/n/e", writePayload(2, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/m/d", writePayload(2, 5, set{alias: 1, value: float32(1)})},
	{"G/DBIRTH/n/d", writePayload(2, 5, set{name: "axis/x", value: float32(1)}, set{name: "axis/z", value: float32(1)})},
	{"G/DBIRTH/n/d", writePayload(2, 5)},
	{"G/DBIRTH/n/d", writePayload(2, 5, set{name: "axis/x", kind: datasetType, null: true}, set{name: "axis/y", value: float32(1)})},
	{"G/DBIRTH/n/d", writePayload(2, 5, set{name: "axis/x", kind: 22, null: true}, set{name: "axis/y", value: float32(1)})},
	{"G/DBIRTH/n/d", writePayload(2, 5, set{name: "axis/x", alias: 3, value: float32(1)}, set{name: "axis/y", alias: 3, value: float32(1)})},
	{"G/DBIRTH/n/a.b", writePayload(2, 5, set{name: "axis/x", value: float32(1)}, set{name: "axis/y", value: float32(1)})},
	{"G/DDATA/n/d", writePayload(2, 5, set{alias: 1, ms: 3, historical: true, value: float32(1)}, set{alias: 1, ms: 4, value: float32(1)})},
}

// The error of each wrong message is in testdata/wrong.txt, reviewed.
func TestWrong(t *testing.T) {
	var messages bytes.Buffer
	for _, w := range wrongMessages {
		r := newRig(t, Options{})
		r.host.groups = []string{"G"}
		r.expectResult("G/NBIRTH/n", nodeBirth(0, 1), "")
		r.expectResult("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
		if len(w.b) > 0 && strings.Contains(string(w.b), "(\x01") { // a historical value
			r.expectResult("G/DDATA/n/d", deviceData(2, 50, 1, 1), "G/n/d gap 50:[1 20]")
			w.b = bytes.Replace(w.b, []byte{0x18, 2}, []byte{0x18, 3}, 1)
		}
		a, err := r.sendMessage(w.name, w.b)
		why := a.wrong
		if err != nil {
			why = append(why, err)
		}
		if len(why) == 0 {
			t.Errorf("%s %q: taken", w.name, w.b)
		}
		for _, err := range why {
			if _, ok := err.(*gateway.Refused); !ok && a.refused != nil || len(err.Error()) > 1000 {
				t.Errorf("%s: %v", w.name, err)
			}
			fmt.Fprintf(&messages, "%s %q\n   %v\n\n", w.name, w.b, err)
		}
	}
	path := filepath.Join("testdata", "wrong.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, messages.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, messages.Bytes()) {
		t.Errorf("%s differs from the current messages (%v); review both after: go test ./internal/gateway/sparkplug -run TestWrong -update\n%s", path, err, messages.Bytes())
	}
}

func TestTopics(t *testing.T) {
	for filter, ok := range map[string]bool{"spBv1.0/G/NCMD/n": true, "spBv1.0/G/NCMD/n/#": true, "spBv1.0/G/DCMD/n/+": true, "spBv1.0/STATE/host": true, "spBv1.0/G/NDATA/n": false, "spBv1.0/#": false, "sensors/+": false} {
		if IsCommandFilter(filter) != ok {
			t.Errorf("%s: %v", filter, !ok)
		}
	}
	for list, ok := range map[string]bool{"+": true, "A, B": true, "": false, "A,": false, "A/B": false, "#": false} {
		if err := CheckGroups(list); (err == nil) != ok {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// FuzzSession sends arbitrary messages to a node. Nothing panics, and the results are samples
// with all channels.
func FuzzSession(f *testing.F) {
	for _, w := range wrongMessages {
		f.Add(byte(3), w.b, writePayload(3, 5, set{alias: 1, value: float32(1)}))
	}
	f.Add(byte(0), nodeBirth(0, 1), deviceBirth(1, 1, 2))
	f.Add(byte(1), deviceBirth(1, 1, 2), writePayload(2, 5, set{alias: 1, ms: 3, historical: true, value: float32(1)}))
	f.Add(byte(2), writePayload(1, 5, set{name: "axis/x", alias: 1, kind: int8Type, value: uint32(255)}, set{name: "axis/y", alias: 2, kind: 12, value: "1"}), writePayload(2, 5, set{alias: 1, value: uint64(3)}))
	kinds := []string{"G/NBIRTH/n", "G/DBIRTH/n/d", "G/DBIRTH/n/d", "G/DDATA/n/d", "G/NDATA/n", "G/NDEATH/n", "G/DDEATH/n/d"}
	f.Fuzz(func(t *testing.T, kind byte, left, right []byte) {
		o := Options{End: kind&32 != 0}
		if kind&16 != 0 {
			o.Period = 10 * time.Millisecond
		}
		r := newRig(t, o)
		r.sendMessage("G/NBIRTH/n", nodeBirth(0, 1))
		if kind&64 != 0 {
			r.sendMessage("G/DBIRTH/n/d", deviceBirth(1, 1, 2))
		}
		for i, b := range [][]byte{left, right, left} {
			a, err := r.sendMessage(kinds[(int(kind&15)+i*int(kind>>4))%len(kinds)], b)
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			for _, p := range a.parts {
				if len(p.X) != 2*len(p.Times) || p.End == (len(p.Times) > 0) {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
