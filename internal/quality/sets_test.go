package quality

import (
	"reflect"
	"testing"
)

// TestOfSets compares with counts by hand.
func TestOfSets(t *testing.T) {
	sets := [][]int32{{0}, {1}, {}, {0, 1}, {1, 2}, {2}}
	got, err := OfSets([]string{"a", "b", "c", "d"}, []int{0, 0, 1, 1, 0, 2}, func(i int) []int32 { return sets[i] })
	if err != nil {
		t.Fatal(err)
	}
	number := func(v float64) *float64 { return &v }
	want := &Sets{Samples: 6, Coverage: 3. / 6, Size: 7. / 6, Empty: 1, Single: 3, Several: 2, Wrong: 1, Classes: []SetClass{
		{"a", 3, number(1. / 3), number(4. / 3)}, {"b", 2, number(.5), number(1)}, {"c", 1, number(1), number(1)}, {"d", 0, nil, nil},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := OfSets([]string{"a", "b"}, nil, nil); err == nil {
		t.Error("no sample")
	}
	if _, err := OfSets([]string{"a", "b"}, []int{2}, func(int) []int32 { return nil }); err == nil {
		t.Error("a label that is no class")
	}
}
