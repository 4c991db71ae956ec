package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A record survives encoding and decoding.
func TestPromotedRecord(t *testing.T) {
	name := strings.Repeat("ab", 16)
	of := Identity{Network: name}
	for _, r := range []Record{
		{Kind: KindClaim, Identity: of, Promoted: Promoted{Known: 1}},
		{Kind: KindCommit, Identity: of, Position: Position{InSeq: 9}, Mark: Mark{Seq: 9, Time: 5}, Promoted: Promoted{Known: 3, Number: 2, At: 8, Readout: name}},
		{Kind: KindCommit, Identity: of, Position: Position{InSeq: 9}, Mark: Mark{Seq: 9, Time: 5}, Generation: 2, Promoted: Promoted{Known: 2, Number: 2, At: 8}},
	} {
		h := r.Header()
		back, err := ParseRecord(h, "j.out.0", 1)
		if err != nil || back != r {
			t.Errorf("%+v is read as %+v, %v", r, back, err)
		}
	}
	h := (&Record{Kind: KindCommit, Identity: of, Promoted: Promoted{Known: 1}}).Header()
	for _, text := range []string{"1 2 3", "1 2 3 -", "x 0 0 -", "0 0 0 -", "1 0 0 best", "1 0 0 - -", "-1 0 0 -"} {
		h[HeaderPromoted] = []string{text}
		if r, err := ParseRecord(h, "j.out.0", 1); err == nil {
			t.Errorf("%q is read as %+v", text, r.Promoted)
		}
	}
}

func TestPromotions(t *testing.T) {
	var all Promotions
	for n := range KeptPromotions + 3 {
		all = all.AppendPromotion(Promotion{Number: uint64(n + 1), Readout: strings.Repeat("0", 32), Who: "a", When: time.Unix(int64(n), 0).UTC()})
	}
	if len(all) != KeptPromotions || all.Last().Number != KeptPromotions+3 || all[0].Number != 4 {
		t.Errorf("kept %d, from %d to %d", len(all), all[0].Number, all.Last().Number)
	}
	back, err := parsePromotions(all.String())
	if err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("%+v, %v", back, err)
	}
	all[2].Number = 1
	for _, text := range []string{all.String(), "[]", "{}", "[{}]", "x"} {
		if _, err := parsePromotions(text); err == nil {
			t.Errorf("%s passes", text)
		}
	}
}

func FuzzParsePromote(f *testing.F) {
	f.Add([]byte(`{"partition":3,"number":1,"readout":"`+strings.Repeat("a", 32)+`","now":true,"who":"a","when":"2026-02-01T08:00:00Z"}`), 3)
	f.Add([]byte(`{"partition":0}`), 0)
	f.Add([]byte(`{} {}`), 0)
	f.Fuzz(func(t *testing.T, data []byte, part int) {
		e, err := ParsePromote(data, part)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q was read, but cannot be written: %v", data, err)
		}
		if _, err := ParsePromote(again, part); err != nil || e.Number == 0 {
			t.Fatalf("%q, written again as %q: %v", data, again, err)
		}
	})
}
