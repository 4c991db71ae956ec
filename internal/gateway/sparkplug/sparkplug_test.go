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

// two are the channels x and y of a model, at metrics of these names.
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

// set is one metric of a message that a test writes.
type set struct {
	name       string
	alias      uint64
	at         uint64
	kind       uint64
	historical bool
	null       bool
	properties []byte
	value      any
}

func write(seq int, at uint64, all ...set) []byte {
	var b []byte
	varint := func(b []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
	}
	if at > 0 {
		b = varint(b, 1, at)
	}
	for _, s := range all {
		var m []byte
		if s.name != "" {
			m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), s.name)
		}
		if s.alias > 0 {
			m = varint(m, 2, s.alias)
		}
		if s.at > 0 {
			m = varint(m, 3, s.at)
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
		case protowire.Number: // a value of this kind
			m = protowire.AppendBytes(protowire.AppendTag(m, v, protowire.BytesType), []byte{1, 2})
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), m)
	}
	if seq >= 0 {
		b = varint(b, 3, uint64(seq))
	}
	return b
}

// rig is a host without a gateway: what its nodes make of messages.
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

func (r *rig) send(name string, b []byte) (action, error) {
	t, err := r.host.parse(namespace + "/" + name)
	if err != nil {
		return action{}, err
	}
	p, err := decode(b)
	if err != nil {
		return action{}, err
	}
	n, err := r.host.node(t)
	if err != nil {
		return action{}, err
	}
	a := n.take(t, p)
	return a, a.refused
}

// told is what becomes of a message, in words.
func (a action) told() string {
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
	if a.ask {
		words = append(words, "rebirth")
	}
	for _, err := range append(a.wrong, a.refused) {
		if err != nil {
			words = append(words, "refused")
		}
	}
	return strings.Join(words, "; ")
}

func (r *rig) want(name string, b []byte, told string) {
	r.t.Helper()
	a, err := r.send(name, b)
	if err != nil && a.refused == nil {
		r.t.Fatal(err)
	}
	if got := a.told(); got != told {
		r.t.Errorf("%s: %q, want %q (%v)", name, got, told, append(a.wrong, a.refused))
	}
}

func nodeBirth(seq, bdseq int) []byte {
	return write(seq, 1000, set{name: "bdSeq", kind: int64Type, value: uint64(bdseq)}, set{name: "Node Control/Rebirth", kind: boolType, value: false})
}

func deviceBirth(seq int, x, y float32) []byte {
	return write(seq, 1000, set{name: "axis/x", alias: 1, kind: 9, value: x}, set{name: "else", alias: 5, kind: datasetType, value: protowire.Number(17)}, set{name: "axis/y", alias: 2, kind: 9, value: y})
}

func deviceData(seq int, at uint64, alias uint64, v float32) []byte {
	return write(seq, at, set{alias: alias, value: v})
}

func TestSession(t *testing.T) {
	r := newRig(t, Options{})
	r.want("G/DDATA/n/d", deviceData(5, 1, 1, 1), "rebirth; refused")
	r.want("G/NDEATH/n", nodeBirth(-1, 1), "")
	r.want("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.want("G/DDATA/n/d", deviceData(1, 1, 1, 1), "rebirth; refused")
	r.want("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.want("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
	r.want("G/DBIRTH/n/other", write(2, 1, set{name: "speed", value: float32(1)}), "refused")
	r.want("G/DDATA/n/other", write(3, 1, set{name: "speed", value: float32(1)}), "")
	r.want("G/NDATA/n", write(4, 1, set{name: "up", value: true}), "")
	r.want("G/DDATA/n/d", deviceData(5, 2000, 1, 11), "G/n/d gap 2000:[11 20]") // of the run before
	r.want("G/DDATA/n/d", write(6, 2005, set{alias: 2, at: 2002, value: float32(22)}, set{alias: 1, at: 2001, value: float32(12)}, set{alias: 2, at: 2001, value: float32(21)}, set{alias: 9, value: float32(1)}),
		"G/n/d 2001:[12 21] 2002:[12 22]")
	r.want("G/DDATA/n/d", write(7, 2006, set{name: "axis/y", null: true}), "G/n/d 2006:[12 NaN]")
	r.want("G/DDATA/n/d", deviceData(9, 2010, 2, 23), "G/n/d gap 2010:[12 23]; rebirth; refused") // 8 is lost
	r.want("G/NBIRTH/n", nodeBirth(0, 1), "")                                                     // asked for: nothing is lost by it
	r.want("G/DBIRTH/n/d", deviceBirth(1, 14, 24), "")
	r.want("G/DDATA/n/d", deviceData(2, 2020, 2, 25), "G/n/d 2020:[14 25]")
	r.want("G/NDEATH/n", nodeBirth(-1, 0), "") // of an earlier session
	r.want("G/DDATA/n/d", deviceData(3, 2021, 2, 26), "G/n/d 2021:[14 26]")
	r.want("G/NDEATH/n", nodeBirth(-1, 1), "")
	r.want("G/DDATA/n/d", deviceData(4, 2022, 2, 26), "rebirth; refused")
	r.want("G/NBIRTH/n", nodeBirth(0, 2), "")
	r.want("G/DBIRTH/n/d", deviceBirth(1, 15, 30), "")
	r.want("G/DDATA/n/d", write(2, 2030, set{alias: 2, at: 2024, historical: true, value: float32(27)}, set{alias: 1, at: 2020, historical: true, value: float32(1)}, set{alias: 1, at: 2029, value: float32(16)}),
		"G/n/d gap 2024:[14 27] 2029:[16 30]; refused")
	r.want("G/DDEATH/n/d", write(3, 1), "")
	r.want("G/DDATA/n/d", deviceData(4, 2040, 2, 26), "rebirth; refused")
	r.want("G/DBIRTH/n/d", deviceBirth(5, 1, 2), "")
	r.want("G/DDATA/n/d", deviceData(6, 2041, 2, 3), "G/n/d gap 2041:[1 3]")
}

// seq begins again after 255, and a node's own metrics may be the channels.
func TestSeq(t *testing.T) {
	r := newRig(t, Options{})
	r.want("G/NBIRTH/n", write(254, 1, set{name: "axis/x", value: float32(1)}, set{name: "axis/y", value: float32(2)}), "")
	r.want("G/NDATA/n", write(255, 5, set{name: "axis/x", value: float32(3)}), "G/n gap 5:[3 2]")
	r.want("G/NDATA/n", write(0, 6, set{name: "axis/x", value: float32(4)}), "G/n 6:[4 2]")
	r.host.Lost() // the gateway's own connection
	r.want("G/NDATA/n", write(1, 7, set{name: "axis/x", value: float32(5)}), "G/n gap 7:[5 2]; rebirth")
}

func TestTypes(t *testing.T) {
	r := newRig(t, Options{})
	r.want("G/NBIRTH/n", write(0, 1, set{name: "axis/x", alias: 1, kind: int8Type, value: uint32(1)}, set{name: "axis/y", alias: 2, kind: int64Type, value: uint64(1)}), "")
	r.want("G/NDATA/n", write(1, 5, set{alias: 1, value: uint32(0xff)}, set{alias: 2, value: uint64(math.MaxUint64)}), "G/n gap 5:[-1 -1]")
	r.want("G/NDATA/n", write(2, 6, set{alias: 1, kind: int32Type, value: uint32(0xfffffffe)}, set{alias: 2, kind: uint64Type, value: uint64(7)}), "G/n 6:[-2 7]")
	r.want("G/NDATA/n", write(3, 7, set{alias: 1, kind: 10, value: 0.1}, set{alias: 2, kind: boolType, value: true}), "G/n 7:[0.1 1]")
}

// property is a set of properties: one of no matter, and one of a name, with a value
// in a field of PropertyValue.
func property(name string, num protowire.Number, value any) []byte {
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

// A value whose quality is not good is missing, in data and in births.
func TestQuality(t *testing.T) {
	r := newRig(t, Options{})
	r.want("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.want("G/DBIRTH/n/d", write(1, 1, set{name: "axis/x", alias: 1, value: float32(1), properties: property("Quality", 3, 192)}, set{name: "axis/y", alias: 2, value: float32(2), properties: property("Quality", 3, 500)}), "")
	for i, c := range []struct {
		properties []byte
		told       string
	}{
		{nil, "G/n/d gap 2:[7 NaN]"},
		{property("Quality", 3, 192), "G/n/d 3:[7 NaN]"},
		{property("Quality", 3, 0), "G/n/d 4:[NaN NaN]"},
		{property("Quality", 3, 500), "G/n/d 5:[NaN NaN]"},
		{property("Quality", 4, 192), "G/n/d 6:[7 NaN]"},
		{property("Quality", 3, 24), "G/n/d 7:[NaN NaN]"},
		{property("quality", 3, 0), "G/n/d 8:[7 NaN]"}, // a property of the device's own
		{property("Quality", 8, "bad"), "refused"},
		{property("Quality", 3, nil), "refused"},
	} {
		r.want("G/DDATA/n/d", write(i+2, uint64(i+2), set{alias: 1, value: float32(7), properties: c.properties}), c.told)
	}
	r.want("G/DDATA/n/d", write(11, 20, set{alias: 2, value: float32(8), properties: property("Quality", 3, 192)}), "G/n/d gap 20:[7 8]")
}

func TestDeathEnds(t *testing.T) {
	r := newRig(t, Options{End: true, Period: 10 * time.Millisecond})
	r.want("G/NBIRTH/n", nodeBirth(0, 1), "")
	r.want("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
	r.want("G/DDATA/n/d", deviceData(2, 995, 1, 11), "")
	r.want("G/NDEATH/n", nodeBirth(-1, 1), "G/n/d gap 1000:[11 20]; G/n/d end")
	r.want("G/NDEATH/n", nodeBirth(-1, 1), "")
}

// wrongs are messages that are refused, after the birth of a node and a device.
var wrongs = []struct {
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
	{"G/DDATA/n/d", write(-1, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", write(7, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", write(2, 0, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", write(2, math.MaxUint64, set{alias: 1, value: float32(1)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: "high"})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: protowire.Number(17)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: protowire.Number(18)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: protowire.Number(16)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, kind: 99, value: uint32(1)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: float32(1), properties: property("Quality", 8, "bad")})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, value: float32(1), properties: []byte{0x0a, 1}})},
	{"G/DDATA/n/e", write(2, 5, set{alias: 1, value: float32(1)})},
	{"G/DDATA/m/d", write(2, 5, set{alias: 1, value: float32(1)})},
	{"G/DBIRTH/n/d", write(2, 5, set{name: "axis/x", value: float32(1)}, set{name: "axis/z", value: float32(1)})},
	{"G/DBIRTH/n/d", write(2, 5)},
	{"G/DBIRTH/n/d", write(2, 5, set{name: "axis/x", kind: datasetType, null: true}, set{name: "axis/y", value: float32(1)})},
	{"G/DBIRTH/n/d", write(2, 5, set{name: "axis/x", kind: 22, null: true}, set{name: "axis/y", value: float32(1)})},
	{"G/DBIRTH/n/d", write(2, 5, set{name: "axis/x", alias: 3, value: float32(1)}, set{name: "axis/y", alias: 3, value: float32(1)})},
	{"G/DBIRTH/n/a.b", write(2, 5, set{name: "axis/x", value: float32(1)}, set{name: "axis/y", value: float32(1)})},
	{"G/DDATA/n/d", write(2, 5, set{alias: 1, at: 3, historical: true, value: float32(1)}, set{alias: 1, at: 4, value: float32(1)})},
}

// What is said of each wrong message is as reviewed, in testdata/wrong.txt.
func TestWrong(t *testing.T) {
	var said bytes.Buffer
	for _, w := range wrongs {
		r := newRig(t, Options{})
		r.host.groups = []string{"G"}
		r.want("G/NBIRTH/n", nodeBirth(0, 1), "")
		r.want("G/DBIRTH/n/d", deviceBirth(1, 10, 20), "")
		if len(w.b) > 0 && strings.Contains(string(w.b), "(\x01") { // a historical one
			r.want("G/DDATA/n/d", deviceData(2, 50, 1, 1), "G/n/d gap 50:[1 20]")
			w.b = bytes.Replace(w.b, []byte{0x18, 2}, []byte{0x18, 3}, 1)
		}
		a, err := r.send(w.name, w.b)
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
			fmt.Fprintf(&said, "%s %q\n   %v\n\n", w.name, w.b, err)
		}
	}
	path := filepath.Join("testdata", "wrong.txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, said.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, said.Bytes()) {
		t.Errorf("%s differs from the current messages (%v); review both after: go test ./internal/gateway/sparkplug -run TestWrong -update\n%s", path, err, said.Bytes())
	}
}

func TestTopics(t *testing.T) {
	for filter, ok := range map[string]bool{"spBv1.0/G/NCMD/n": true, "spBv1.0/G/NCMD/n/#": true, "spBv1.0/G/DCMD/n/+": true, "spBv1.0/STATE/host": true, "spBv1.0/G/NDATA/n": false, "spBv1.0/#": false, "sensors/+": false} {
		if Commands(filter) != ok {
			t.Errorf("%s: %v", filter, !ok)
		}
	}
	for list, ok := range map[string]bool{"+": true, "A, B": true, "": false, "A,": false, "A/B": false, "#": false} {
		if err := CheckGroups(list); (err == nil) != ok {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// FuzzSession gives a node messages of any kind. Nothing panics, and what comes out is
// samples of all channels.
func FuzzSession(f *testing.F) {
	for _, w := range wrongs {
		f.Add(byte(3), w.b, write(3, 5, set{alias: 1, value: float32(1)}))
	}
	f.Add(byte(0), nodeBirth(0, 1), deviceBirth(1, 1, 2))
	f.Add(byte(1), deviceBirth(1, 1, 2), write(2, 5, set{alias: 1, at: 3, historical: true, value: float32(1)}))
	f.Add(byte(2), write(1, 5, set{name: "axis/x", alias: 1, kind: int8Type, value: uint32(255)}, set{name: "axis/y", alias: 2, kind: 12, value: "1"}), write(2, 5, set{alias: 1, value: uint64(3)}))
	kinds := []string{"G/NBIRTH/n", "G/DBIRTH/n/d", "G/DBIRTH/n/d", "G/DDATA/n/d", "G/NDATA/n", "G/NDEATH/n", "G/DDEATH/n/d"}
	f.Fuzz(func(t *testing.T, kind byte, one, other []byte) {
		o := Options{End: kind&32 != 0}
		if kind&16 != 0 {
			o.Period = 10 * time.Millisecond
		}
		r := newRig(t, o)
		r.send("G/NBIRTH/n", nodeBirth(0, 1))
		if kind&64 != 0 {
			r.send("G/DBIRTH/n/d", deviceBirth(1, 1, 2))
		}
		for i, b := range [][]byte{one, other, one} {
			a, err := r.send(kinds[(int(kind&15)+i*int(kind>>4))%len(kinds)], b)
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
