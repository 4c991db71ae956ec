//go:build linux

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// TestDoor: the stored samples of a gateway are the device's next samples, for any split
// into messages. After a loss of power, unanswered messages may be doubled under new numbers.
func TestDoor(t *testing.T) {
	plan := handmade(3) // of two rows each
	enc, err := codec.NewInputEncoder(channelNames, codec.InputOptions{Times: true, Ends: true})
	if err != nil {
		t.Fatal(err)
	}
	var x []float32
	var times []int64
	var ends []bool
	for _, m := range plan.messages["k"] {
		x, times, ends = append(x, m.x...), append(times, m.times...), append(ends, m.ends...)
	}
	message := func(rows ...int) []byte {
		b := codec.Batch{Rows: len(rows)}
		for _, i := range rows {
			b.X, b.Times, b.Ends = append(b.X, x[i*channels:(i+1)*channels]...), append(b.Times, times[i]), append(b.Ends, ends[i])
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
		losses   []loss
	}{
		{"as sent", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{2, 3}}, {"a", 3, []int{4, 5}}}, false, []uint64{1, 2, 3}, nil},
		{"divided otherwise", []stored{{"a", 1, []int{0}}, {"a", 2, []int{1, 2, 3, 4}}}, false, []uint64{1, 2}, nil},
		{"stored twice under its number", []stored{{"a", 1, []int{0, 1}}, {"a", 1, []int{0, 1}}, {"a", 2, []int{2}}}, false, []uint64{1}, nil},
		{"doubled", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{0, 1}}}, true, []uint64{1}, nil},
		{"lost", []stored{{"a", 1, []int{0, 1}}, {"a", 2, []int{4, 5}}}, true, []uint64{1}, nil},
		{"swapped", []stored{{"a", 1, []int{1, 0}}}, true, nil, nil},
		{"one too many", []stored{{"a", 1, []int{0, 1, 2, 3, 4, 5}}, {"a", 2, []int{5}}}, true, []uint64{1, 2, 3}, nil},
		{"numbered from 1", []stored{{"a", 1, []int{0, 1}}, {"b", 1, []int{2, 3}}}, true, []uint64{1}, nil},
		{"unanswered, doubled after a loss of power", []stored{{"a", 1, []int{0, 1, 2, 3}}, {"b", 1, []int{2, 3}}, {"b", 2, []int{4, 5}}}, false, []uint64{1, 2, 2, 3}, []loss{{unanswered: map[string]int{"k": 1}}}},
		{"answered, doubled after a loss of power", []stored{{"a", 1, []int{0, 1, 2, 3}}, {"b", 1, []int{0, 1}}}, true, []uint64{1, 2}, []loss{{unanswered: map[string]int{"k": 1}}}},
		{"lost after a loss of power", []stored{{"a", 1, []int{0, 1}}, {"b", 1, []int{4, 5}}}, true, []uint64{1}, []loss{{unanswered: map[string]int{"k": 1}}}},
		{"numbered from 1 twice after a loss of power", []stored{{"a", 1, []int{0, 1}}, {"b", 1, []int{2, 3}}, {"c", 1, []int{4, 5}}}, true, []uint64{1, 2}, []loss{{unanswered: map[string]int{"k": 1}}}},
	} {
		d, err := newDoor(plan, "", false)
		if err != nil {
			t.Fatal(err)
		}
		d.losses = c.losses
		var done []uint64
		wrong := false
		for _, s := range c.messages {
			_, whole, why, err := d.checkStored("k", s.incarnation, s.seq, time.Time{}, message(s.rows...))
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
