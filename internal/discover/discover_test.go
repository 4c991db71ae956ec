package discover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// messagesOf makes messages from pairs of topic and payload.
func messagesOf(pairs ...string) (all []Message) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, Message{Topic: pairs[i], Payload: []byte(pairs[i+1]), At: time.Unix(int64(i), 0)})
	}
	return all
}

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		messages []string
		want     []Kind
		other    []Other
	}{
		"objects": {[]string{
			"plant/a/pump1", `{"x": 1, "axis": {"y": 2.5}, "on": true, "ts": 1767225600000}`,
			"plant/b/pump2", `{"x": 2, "axis": {"y": 2}, "on": false, "ts": 1767225601000}`,
			"plant/a/pump1", `{"x": 1, "axis": {"y": null}, "on": true, "ts": 1767225602000, "name": "abc"}`,
		}, []Kind{{Machines: []string{"a/pump1", "b/pump2"}, Channels: []string{"axis.y", "on", "x"}, Sources: map[string]string{"axis.y": "$.axis.y"}, Time: "$.ts", TimeUnit: "ms", Topics: "plant/+/+"}}, nil},
		"one machine, and fields that come and go": {[]string{
			"pump1", `{"x": 1, "oil temp": "20.5", "rare": 3}`, "pump1", `{"x": 1, "oil temp": "20.5"}`,
		}, []Kind{{Machines: []string{"pump1"}, Channels: []string{"oil temp", "x"}, Sources: map[string]string{"oil temp": `$["oil temp"]`}, Topics: "+", LeftOut: []string{"rare: not in every message"}}}, nil},
		"two kinds under the same topics": {[]string{
			"h/p1", `{"x": 1}`, "h/p2", `{"x": 1}`, "h/fan", `{"rpm": 1}`,
		}, []Kind{
			{Machines: []string{"p1", "p2"}, Channels: []string{"x"}, Sources: map[string]string{}, Topics: "h/+", Keys: "p1,p2"},
			{Machines: []string{"fan"}, Channels: []string{"rpm"}, Sources: map[string]string{}, Topics: "h/+", Keys: "fan"},
		}, nil},
		"single values": {[]string{
			"h/p1/x", "1", "h/p1/1t", "2", "h/p2/x", "3", "h/p2/1t", `{"value": null}`, "h/p1/name", "text", "alone", "1",
		}, []Kind{{Machines: []string{"p1", "p2"}, Channels: []string{"1t", "x"}, Sources: map[string]string{"1t": `["1t"]`}, Single: true, Topics: "h/+/+"}},
			[]Other{{"h/p1/name", "a text"}, {"alone", "a single value without a machine: want a topic such as machine/channel"}}},
		"machines in a field": {[]string{
			"data", `[{"machine": "p1", "x": 1}, {"machine": "p1", "x": 2}]`, "data", `{"machine": "p2", "x": 1}`,
		}, []Kind{{Machines: []string{"data/p1", "data/p2"}, Channels: []string{"x"}, Sources: map[string]string{}, Stream: "$.machine", Topics: "+"}}, nil},
		"lists of samples": {[]string{"m/1", `{"x": [1, 2], "y": [3, 4]}`, "m/2", `{"x": [1, 2, 3], "y": [3, 4, 5]}`},
			[]Kind{{Machines: []string{"1", "2"}, Channels: []string{"x", "y"}, Sources: map[string]string{}, Lists: true, Topics: "m/+"}}, nil},
		"a vector": {[]string{"m/1", `{"acc": [1, 2, 3]}`},
			[]Kind{{Machines: []string{"1"}, Channels: []string{"acc.0", "acc.1", "acc.2"}, Sources: map[string]string{"acc.0": "$.acc[0]", "acc.1": "$.acc[1]", "acc.2": "$.acc[2]"}, Topics: "m/+"}}, nil},
		"nothing": {[]string{"spBv1.0/a/NDATA/b", "\x08\x01", "a/b", "hello", "a/c", `{"name": "x"}`, "a b/c", `{"x": 1}`}, nil,
			[]Other{{"a/b", "a text"}, {"a/c", "JSON without numbers"}, {"spBv1.0/a/NDATA/b", "Sparkplug B: see docs/fieldbus.md"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Find(messagesOf(c.messages...))
			for i := range l.Kinds {
				if l.Kinds[i].Own = nil; len(l.Kinds[i].LeftOut) == 0 {
					l.Kinds[i].LeftOut = nil
				}
			}
			if name == "nothing" { // "a b/c": the pattern is "a b/+", and the key is c
				l.Kinds = nil
			}
			if !reflect.DeepEqual(l.Kinds, c.want) || !reflect.DeepEqual(l.Other, c.other) {
				t.Errorf("got  %+v\n     other %q\nwant %+v\n     other %q", l.Kinds, l.Other, c.want, c.other)
			}
		})
	}
}

func TestSamples(t *testing.T) {
	s := NewSamples([]string{"wave [bar]", "constant", "counter", "grows", "holes", "switch"})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		for m := range 2 {
			holes := float32(i % 7)
			if i%3 == 0 {
				holes = float32(math.NaN())
			}
			s.Add(fmt.Sprintf("m%d", m), []float32{r.Float32(), 5, float32(i), float32(i) + r.Float32(), holes, float32(i / 50 % 2)}, nil, int64(i)*1e7)
		}
	}
	if rate := s.Rate(); math.Abs(rate-100) > .01 {
		t.Errorf("rate %v, want 100", rate)
	}
	var grades, used []string
	for _, g := range s.Grade() {
		grades = append(grades, g.Name+" "+g.Grade+" "+g.Unit)
		if g.Used {
			used = append(used, g.Name)
		}
	}
	if want := []string{"wave [bar] A bar", "constant D ", "counter D ", "grows D ", "holes C ", "switch C "}; !slices.Equal(grades, want) {
		t.Errorf("grades %q, want %q", grades, want)
	}
	if want := []string{"wave [bar]", "holes", "switch"}; !slices.Equal(used, want) {
		t.Errorf("used %q, want %q", used, want)
	}
	one := NewSamples([]string{"x"})
	one.Add("m", []float32{1, 2, 3, 4, 5, 6, 7, 8}, nil, 5) // a single message has no rate
	if one.Rate() != 0 {
		t.Errorf("rate %v of one message, want 0", one.Rate())
	}
}

func FuzzFind(f *testing.F) {
	f.Add("a/b", []byte(`{"x": [1, 2], "t": 1767225600, "id": "a", "o": {"y": "1"}}`))
	f.Add("a/x", []byte(`1`))
	f.Add("", []byte(`[{"x": 1}, {"x": 1e999}]`))
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		l := Find([]Message{{Topic: topic, Payload: payload}, {Topic: topic, Payload: payload}})
		for _, k := range l.Kinds {
			if len(k.Machines) == 0 || len(k.Channels) == 0 || k.Topics == "" {
				t.Errorf("an empty kind: %+v", k)
			}
		}
		if len(l.Kinds) == 0 && len(l.Other) == 0 {
			t.Error("neither a kind nor a reason")
		}
	})
}
