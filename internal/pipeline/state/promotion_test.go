package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// promotionMessage is a promotion in the input of partition 0.
func promotionMessage(t *testing.T, p wire.Promotion) Message {
	t.Helper()
	data, err := json.Marshal(wire.PromoteEvent{Promotion: p})
	if err != nil {
		t.Fatal(err)
	}
	return Message{Key: wire.IdlePrefix + "3", Header: wire.Header{wire.HeaderKind: {wire.KindPromote}}, Data: data}
}

func readoutName(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%032x", n)
}

// numberMessages gives messages their places in the input.
func numberMessages(all ...Message) []Message {
	for i := range all {
		all[i].Seq, all[i].Stored = uint64(i+1), int64(i+1)
	}
	return all
}

// rowsMessage returns a message with n samples of key a.
func rowsMessage(t *testing.T, n int, end bool) Message {
	t.Helper()
	return encodeLog(t, []entry{{key: "a", rows: slices.Repeat([]sample{{stream: "a", value: 1}}, n), end: end}})[0]
}

// Promotions change neither a state nor the set of predictions: the digests equal the
// digests of the same log with empty events instead of the promotions.
func TestPromotionsAreNotInTheDigest(t *testing.T) {
	t.Parallel()
	differ := 0
	for seed := range manySeeds() / 5 {
		log := drawLog(drawBytes(seed))
		rules := rulesOf(policies[int(seed)%len(policies)])
		with := newOwner(t, rules)
		with.feedMessages(encodeLog(t, log), func(uint64) bool { return true })
		for i := range log {
			if log[i].promotion != nil {
				log[i].promotion, log[i].event = nil, &wire.IdleEvent{}
			}
		}
		without := newOwner(t, rules)
		without.feedMessages(encodeLog(t, log), func(uint64) bool { return true })
		if with.p.Sum != without.p.Sum || len(with.made) != len(without.made) {
			t.Fatalf("seed %d: digest %v with promotions, %v without; %d and %d predictions", seed, with.p.Sum, without.p.Sum, len(with.made), len(without.made))
		}
		for i := range with.made {
			if with.made[i].readout != "" {
				differ++
			}
			with.made[i].readout = ""
		}
		if !slices.Equal(with.made, without.made) {
			t.Fatalf("seed %d: %s", seed, firstDifference(with.made, without.made))
		}
	}
	if differ < int(manySeeds()) {
		t.Errorf("%d predictions of another readout: the test has lost its subject", differ)
	}
}

// A promotion applies to the next sequence of a stream, and to open sequences only with
// now. Windows overlap: each window keeps the readout of its beginning.
func TestPromotionAtTheNextSequence(t *testing.T) {
	next := func(n int) Message {
		return promotionMessage(t, wire.Promotion{Number: uint64(n), Readout: readoutName(n), Who: "a"})
	}
	atOnce := func(n int) Message {
		return promotionMessage(t, wire.Promotion{Number: uint64(n), Readout: readoutName(n), Now: true, Who: "a"})
	}
	for what, c := range map[string]struct {
		policy reservoir.Policy
		log    []Message
		want   []int
	}{
		"between sequences": {reservoir.Policy{Kind: reservoir.Marked}, []Message{rowsMessage(t, 2, true), next(1), rowsMessage(t, 2, true)}, []int{0, 1}},
		"in a sequence":     {reservoir.Policy{Kind: reservoir.Marked, Early: 1}, []Message{rowsMessage(t, 1, false), next(1), rowsMessage(t, 2, true), rowsMessage(t, 1, true)}, []int{0, 0, 0, 1}},
		"now":               {reservoir.Policy{Kind: reservoir.Marked, Early: 1}, []Message{rowsMessage(t, 1, false), atOnce(1), rowsMessage(t, 2, true), rowsMessage(t, 1, true)}, []int{0, 1, 1, 1}},
		"twice in one":      {reservoir.Policy{Kind: reservoir.Count, Length: 4}, []Message{rowsMessage(t, 2, false), next(1), next(2), rowsMessage(t, 6, false)}, []int{0, 2}},
		"windows":           {reservoir.Policy{Kind: reservoir.Window, Length: 4, Hop: 2}, []Message{rowsMessage(t, 3, false), next(1), rowsMessage(t, 5, false)}, []int{0, 0, 1}},
		"endless":           {reservoir.Policy{Kind: reservoir.Endless, Early: 2}, []Message{rowsMessage(t, 3, false), next(1), rowsMessage(t, 3, false)}, []int{0, 1, 1}},
		"repeated":          {reservoir.Policy{Kind: reservoir.Count, Length: 1}, []Message{next(1), rowsMessage(t, 1, false), next(2), next(1), rowsMessage(t, 1, false)}, []int{1, 2}},
		"back":              {reservoir.Policy{Kind: reservoir.Count, Length: 1}, []Message{next(1), rowsMessage(t, 1, false), promotionMessage(t, wire.Promotion{Number: 2, Who: "a"}), rowsMessage(t, 1, false)}, []int{1, 0}},
	} {
		o := newOwner(t, rulesOf(c.policy))
		o.feedMessages(numberMessages(c.log...), func(uint64) bool { return false })
		var got, want []string
		for _, p := range o.made {
			got = append(got, p.readout)
		}
		for _, n := range c.want {
			want = append(want, readoutName(n))
		}
		if !slices.Equal(got, want) || len(o.dead) > 0 {
			t.Errorf("%s: readouts %q, want %q; dead letters %v", what, got, want, o.dead)
		}
	}
}

// An invalid promotion becomes a dead letter, and changes nothing.
func TestForgedPromotions(t *testing.T) {
	good := promotionMessage(t, wire.Promotion{Number: 1, Readout: readoutName(1), Who: "a"})
	under := func(key string) Message { m := good; m.Key = key; return m }
	text := func(s string) Message { m := good; m.Data = []byte(s); return m }
	for what, m := range map[string]Message{
		"under a producer's key": under("a"),
		"half under one":         under(wire.IdlePrefix + "1.a"),
		"no JSON":                text("promote"),
		"empty":                  text(""),
		"two":                    text(string(good.Data) + string(good.Data)),
		"of another partition":   text(strings.Replace(string(good.Data), `"partition":0`, `"partition":1`, 1)),
		"unknown field":          text(strings.Replace(string(good.Data), `"partition":0`, `"partition":0,"more":1`, 1)),
		"number 0":               promotionMessage(t, wire.Promotion{Readout: readoutName(1)}),
		"no fingerprint":         promotionMessage(t, wire.Promotion{Number: 1, Readout: "best"}),
		"a long name":            promotionMessage(t, wire.Promotion{Number: 1, Readout: strings.Repeat("a", 65)}),
		"a long who":             promotionMessage(t, wire.Promotion{Number: 1, Readout: readoutName(1), Who: strings.Repeat("a", 129)}),
	} {
		o := newOwner(t, rulesOf(policies[0]))
		o.feedMessages(numberMessages(m, rowsMessage(t, 1, true)), func(uint64) bool { return false })
		if !slices.Equal(o.dead, []uint64{1}) || len(o.made) != 1 || o.made[0].readout != "" || o.p.promotions != nil || o.p.Len() != 1 {
			t.Errorf("%s: dead letters %v, predictions %+v, %d streams", what, o.dead, o.made, o.p.Len())
		}
	}
}

// Jobs that read the same input have separate promotions.
func TestPromotionOfAnotherJob(t *testing.T) {
	of := func(job string, n int) Message {
		data, err := json.Marshal(wire.PromoteEvent{Job: job, Promotion: wire.Promotion{Number: uint64(n), Readout: readoutName(n), Who: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		return Message{Key: wire.IdlePrefix + "3", Header: wire.Header{wire.HeaderKind: {wire.KindPromote}}, Data: data}
	}
	for job, want := range map[string]string{"": readoutName(1), "b": readoutName(2), "c": ""} {
		rules := rulesOf(policies[0])
		rules.Events = job
		o := newOwner(t, rules)
		o.feedMessages(numberMessages(of("", 1), of("b", 2), rowsMessage(t, 1, true)), func(uint64) bool { return false })
		if len(o.dead) > 0 || len(o.made) != 1 || o.made[0].readout != want {
			t.Errorf("job %q: %+v, dead letters %v; want readout %q", job, o.made, o.dead, want)
		}
	}
}

// A partition keeps at most MostReadouts readouts. Sequences of older readouts get the
// oldest remaining readout; readouts that no sequence needs are forgotten first.
func TestMostReadouts(t *testing.T) {
	log := []Message{}
	many := MostReadouts + 8
	for i := range many {
		one := rowsMessage(t, 1, false)
		one.Key = fmt.Sprint("k", i)
		log = append(log, one, promotionMessage(t, wire.Promotion{Number: uint64(i + 1), Readout: readoutName(i + 1), Who: "a"}))
	}
	for i := range many {
		end := rowsMessage(t, 1, true)
		end.Key = fmt.Sprint("k", i)
		log = append(log, end)
	}
	log = append(log, promotionMessage(t, wire.Promotion{Number: 1000, Readout: readoutName(1000), Who: "a"}))
	o := newOwner(t, rulesOf(policies[0]))
	o.feedMessages(numberMessages(log...), func(uint64) bool { return false })
	oldest := many - MostReadouts + 1
	for i, p := range o.made {
		if want := readoutName(max(i, oldest)); p.readout != want {
			t.Fatalf("sequence %d of readout %q, want %q", i, p.readout, want)
		}
	}
	if len(o.p.promotions) != 2 { // the previous promotion stays in the list until the next check
		t.Errorf("%d promotions are kept: %v", len(o.p.promotions), o.p.promotions)
	}
	sh, part, err := ShapeIn(o.encodeState())
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(o.encodeState(), sh, part)
	if err != nil || len(back.promotions) != 1 || back.Promotion().Number != 1000 {
		t.Errorf("%v, %v", back, err)
	}
}

// The promotions kept beyond the limit depend only on the open sequences: a restored
// partition keeps the same promotions. Here stream s was silent at the snapshot, and
// had been open under promotion 2.
func TestMostReadoutsAfterRestore(t *testing.T) {
	next := func(n int) Message {
		return promotionMessage(t, wire.Promotion{Number: uint64(n), Readout: readoutName(n), Who: "a"})
	}
	of := func(key string, n int) Message { m := rowsMessage(t, n, false); m.Key = key; return m }
	silence, err := json.Marshal(wire.IdleEvent{After: 5, Streams: []wire.StreamName{{Key: "s", Stream: "s"}}})
	if err != nil {
		t.Fatal(err)
	}
	ends := Message{Key: wire.IdlePrefix + "0", Header: wire.Header{wire.HeaderKind: {wire.KindIdle}}, Data: silence}
	log := []Message{next(1), of("old", 3), next(2), of("s", 3), next(3), ends}
	snapshotAt := len(log)
	log = append(log, of("s", 1))
	for n := 4; n <= MostReadouts+1; n++ {
		log = append(log, next(n), of(fmt.Sprint("k", n), 1))
	}
	log = numberMessages(append(log, of("old", 1), of("s", 3))...)
	whole := newOwner(t, rulesOf(reservoir.Policy{Kind: reservoir.Window, Length: 4, Hop: 2}))
	whole.feedMessages(log[:snapshotAt], func(uint64) bool { return true })
	goesOn := whole.restoreOwner(whole.encodeState(), 0, 0, wire.Digest{})
	for _, o := range []*owner{whole, goesOn} {
		o.feedMessages(log[snapshotAt:], func(uint64) bool { return true })
		var got []string
		for _, p := range o.made {
			got = append(got, p.stream+" "+p.readout)
		}
		if want := []string{"old " + readoutName(1), "s " + readoutName(3)}; !slices.Equal(got, want) {
			t.Errorf("predictions %q, want %q", got, want)
		}
	}
}

// A state for another job has no promotions.
func TestRewoundForgetsPromotions(t *testing.T) {
	o := newOwner(t, rulesOf(policies[0]))
	o.feedMessages(numberMessages(rowsMessage(t, 1, false), promotionMessage(t, wire.Promotion{Number: 1, Readout: readoutName(1), Who: "a"})), func(uint64) bool { return false })
	p, err := Decode(o.encodeState(), o.m.Shape, 0)
	if err != nil || p.Promotion().Number != 1 {
		t.Fatalf("promotion %+v, %v", p.Promotion(), err)
	}
	rewound, err := p.EncodeRewound(o.m.Shape)
	if err == nil {
		p, err = Decode(rewound, o.m.Shape, 0)
	}
	if err != nil || p.promotions != nil {
		t.Errorf("promotions %+v, %v", p.promotions, err)
	}
}

// Keys that move to other partitions keep the readout of their open sequences, even if
// one partition never had a promotion of another partition.
func TestPromotedRedistribution(t *testing.T) {
	a, b := newOwner(t, rulesOf(policies[0])), newOwner(t, rulesOf(policies[0]))
	next := func(n int, now bool) Message {
		return promotionMessage(t, wire.Promotion{Number: uint64(n), Readout: readoutName(n), Now: now, Who: "a"})
	}
	open := func(key string) Message { m := rowsMessage(t, 1, false); m.Key = key; return m }
	a.feedMessages(numberMessages(open("a0"), next(1, false), open("a1"), next(3, false), open("a3")), func(uint64) bool { return false })
	b.feedMessages(numberMessages(open("b0"), next(1, false), open("b1"), next(2, true), open("b2"), next(3, false), open("b3")), func(uint64) bool { return false })
	decoded := func(o *owner) *Partition {
		p, err := Decode(o.encodeState(), o.m.Shape, 0)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	made, err := Redistribute([]*Partition{decoded(a), decoded(b)}, []int{0}, func(string) int { return 0 }, wire.Place{Seq: 100})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := made[0].Encode(a.m.Shape, DecodedRows{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(encoded, a.m.Shape, 0)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a0": 0, "a1": 1, "a3": 3, "b0": 2, "b1": 2, "b2": 2, "b3": 3} {
		if got := p.readoutOf(p.Sources[key].Streams[key], 0); got != readoutName(want) {
			t.Errorf("key %s has readout %q, want %q", key, got, readoutName(want))
		}
	}
	late := newOwner(t, rulesOf(policies[0]))
	late.feedMessages(numberMessages(open("c"), next(1, false)), func(uint64) bool { return false })
	if _, err := Redistribute([]*Partition{decoded(a), decoded(late)}, []int{0}, func(string) int { return 0 }, wire.Place{Seq: 100}); err == nil || !strings.Contains(err.Error(), "complete the promotion") {
		t.Errorf("partitions of promotions 3 and 1: %v", err)
	}
}

// A promotion of an earlier job with the same name is ignored: the log still has the
// promotion.
func TestPromotionOfAnEarlierJob(t *testing.T) {
	for begun, want := range map[string]string{"2026-01-31T12:00:00Z": readoutName(1), "2026-01-01T00:00:00Z": "", "": ""} {
		data, err := json.Marshal(wire.PromoteEvent{Begun: begun, Promotion: wire.Promotion{Number: 1, Readout: readoutName(1), Who: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		event := Message{Key: wire.IdlePrefix + "3", Header: wire.Header{wire.HeaderKind: {wire.KindPromote}}, Data: data}
		rules := rulesOf(policies[0])
		rules.Begun = "2026-01-31T12:00:00Z"
		o := newOwner(t, rules)
		o.feedMessages(numberMessages(event, rowsMessage(t, 1, true)), func(uint64) bool { return false })
		if len(o.dead) > 0 || len(o.made) != 1 || o.made[0].readout != want {
			t.Errorf("begun %q: %+v, dead letters %v; want readout %q", begun, o.made, o.dead, want)
		}
	}
}
