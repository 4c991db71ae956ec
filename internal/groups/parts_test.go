package groups

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func size(group string, n int64) Size { return Size{group, map[string]int64{"x": n, "y": 1}} }

func TestDivide(t *testing.T) {
	rule, err := Parse("machine")
	if err != nil {
		t.Fatal(err)
	}
	var all []Size
	for i := range 20 {
		all = append(all, size(fmt.Sprintf("m%02d", i), int64(9+10*(i%3))))
	}
	drawn := map[string]bool{}
	for seed := range uint64(40) {
		p, err := Divide(rule, all, .25, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.checkParts(); err != nil || len(p.Train)+len(p.Test) != 20 || !slices.IsSorted(p.Train) || !slices.IsSorted(p.Test) {
			t.Fatalf("seed %d: %+v, %v", seed, p, err)
		}
		total, test := int64(0), int64(0)
		for _, s := range all {
			if total += s.All(); slices.Contains(p.Test, s.Group) {
				test += s.All()
			}
		}
		// The largest group has 30 samples: a distance of half of 30 is always possible.
		if off := test - total/4; off > 15 || off < -15 {
			t.Errorf("seed %d: %d of %d in the test part", seed, test, total)
		}
		drawn[strings.Join(p.Test, ",")] = true
		slices.Reverse(all)
		if again, err := Divide(rule, all, .25, seed); err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("seed %d: another order of the groups gives %+v, %v", seed, again, err)
		}
	}
	if len(drawn) < 35 {
		t.Errorf("40 seeds give %d different parts", len(drawn))
	}
	for _, share := range []float64{1e-9, 1 - 1e-9} { // each part has at least one group
		if p, err := Divide(rule, all[:2], share, 1); err != nil || len(p.Train) != 1 || len(p.Test) != 1 {
			t.Errorf("%v of two groups: %+v, %v", share, p, err)
		}
	}
	for _, share := range []float64{0, 1, -1, 2} {
		if _, err := Divide(rule, all, share, 1); err == nil {
			t.Errorf("a share of %v is taken", share)
		}
	}
	if _, err := Divide(rule, all[:1], .5, 1); err == nil || !strings.Contains(err.Error(), "1 groups by machine: want at least two") {
		t.Errorf("one group: %v", err)
	}
}

const goodParts = `{"eusn_parts":1,"rule":"^(h[0-9])","share":0.2,"seed":1,"train":["h0","h1"],"test":["h2"]}`

func TestDecodeParts(t *testing.T) {
	p, err := DecodeParts([]byte(goodParts))
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := DecodeParts(text); err != nil || !reflect.DeepEqual(again, p) {
		t.Errorf("%+v, %v, want %+v", again, err, p)
	}
	for change, want := range map[[2]string]string{
		{`"eusn_parts":1`, `"eusn_parts":2`}:  "eusn_parts is 2, want 1: use the release that wrote it",
		{`"rule":"^(h[0-9])"`, `"rule":"^h"`}: "rule: ^h: want stream, or a regular expression with a group",
		{`["h2"]`, `["h1"]`}:                  `group "h1" is there twice, want it in one part`,
		{`["h2"]`, `[]`}:                      "2 groups to train on and 0 to test, want at least one each",
		{`["h2"]`, `[""]`}:                    "a group without a name",
		{`"seed":1`, `"sede":1`}:              `unknown field "sede"`,
		{`"seed":1`, `"seed":-1`}:             "not a file of training and test parts",
		{`}`, `} x`}:                          "there is more after the parts",
		{goodParts, ``}:                       "not a file of training and test parts: EOF",
	} {
		if _, err := DecodeParts([]byte(strings.Replace(goodParts, change[0], change[1], 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change[1], err, want)
		}
	}
}

// FuzzParts: for any bytes, accepted parts are unchanged after writing and reading.
func FuzzParts(f *testing.F) {
	f.Add([]byte(goodParts))
	f.Add([]byte(`{"eusn_parts":1,"rule":"day","train":["\u0000"],"test":["\ufffd"]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := DecodeParts(text)
		if err != nil {
			return
		}
		if _, err := p.Grouping(); err != nil {
			t.Fatal(err)
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := DecodeParts(again); err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v, %v, want %+v", q, err, p)
		}
	})
}
