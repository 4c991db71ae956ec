//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// TestDoor: the stored samples of a gateway are the device's next samples, for any split
// into messages.
func TestDoor(t *testing.T) {
	plan := handmade(3) // of two rows each
	enc, err := codec.NewInputEncoder(channelNames, codec.InputOptions{Times: true})
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	var times []int64
	for _, m := range plan.messages["k"] {
		x, times = append(x, m.x...), append(times, m.times...)
	}
	message := func(rows ...int) []byte {
		b := codec.Batch{Rows: len(rows)}
		for _, i := range rows {
			b.X, b.Times = append(b.X, x[i*channels:(i+1)*channels]...), append(b.Times, times[i])
		}
		data, err := enc.Encode(&b)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(data)
	}
	type stored struct {
		incarnation string
		seq         uint64
		rows        []int
	}
	for _, c := range []struct {
		what     string
		messages []stored
		wrong    bool
		done     []uint64
	}{
		{"as sent", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{2, 3}}, {"a", 3, []int{4, 5}}}, false, []uint64{1, 2, 3}},
		{"divided otherwise", []stored{{"a", 1, []int{0}}, {"a", 2, []int{1, 2, 3, 4}}}, false, []uint64{1, 2}},
		{"stored twice under its number", []stored{{"a", 1, []int{0, 1}}, {"a", 1, []int{0, 1}}, {"a", 2, []int{2}}}, false, []uint64{1}},
		{"doubled", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{0, 1}}}, true, []uint64{1}},
		{"lost", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{4, 5}}}, true, []uint64{1}},
		{"swapped", []stored{{"a", 1, []int{1, 0}}}, true, nil},
		{"one too many", []stored{{"a", 1, []int{0, 1, 2, 3, 4, 5}}, {"a", 2, []int{5}}}, true, []uint64{1, 2, 3}},
		{"numbered anew", []stored{{"a", 1, []int{0, 1}}, {"b", 1, []int{2, 3}}}, true, []uint64{1}},
	} {
		d, err := newDoor(plan, "", false)
		if err != nil {
			t.Fatal(err)
		}
		var done []uint64
		wrong := false
		for _, s := range c.messages {
			_, whole, why, err := d.checkStored("k", s.incarnation, s.seq, message(s.rows...))
			if err != nil {
				t.Fatal(err)
			}
			done, wrong = append(done, whole...), wrong || why != ""
		}
		if wrong != c.wrong || !slices.Equal(done, c.done) {
			t.Errorf("%s: wrong %v, whole %v, want %v and %v", c.what, wrong, done, c.wrong, c.done)
		}
	}
}
