package codec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// randomBatch is a batch of finite samples with everything a message can hold.
func randomBatch(r *rand.Rand, rows, channels, streams int) *Batch {
	b := &Batch{Rows: rows}
	for range rows * channels {
		b.X = append(b.X, float32(r.NormFloat64()))
	}
	pos := map[int]int32{}
	for i := range rows {
		b.Times = append(b.Times, 1_700_000_000_000_000_000+int64(i)*10_000_000)
		b.Ends = append(b.Ends, r.IntN(5) == 0)
		s := r.IntN(streams)
		if _, known := pos[s]; !known {
			pos[s] = int32(len(b.Keys))
			b.Keys = append(b.Keys, fmt.Sprintf("site/dev%05d", s))
		}
		b.Key = append(b.Key, pos[s])
	}
	return b
}

// only keeps the parts of b named by the options.
func only(b *Batch, o InputOptions) *Batch {
	c := &Batch{Rows: b.Rows, X: b.X}
	if o.Times {
		c.Times = b.Times
	}
	if o.Ends {
		c.Ends = b.Ends
	}
	if o.Keys {
		c.Keys, c.Key = b.Keys, b.Key
	}
	return c
}

// allInputOptions lists every combination.
func allInputOptions() (all []InputOptions) {
	for i := range 16 {
		o := InputOptions{Columns, i&1 != 0, i&2 != 0, i&4 != 0}
		if i&8 != 0 {
			o.Layout = List
		}
		all = append(all, o)
	}
	return all
}

// TestInputRoundTrip: our decoder and the Arrow library read an encoder's
// messages, also of one encoder used for many messages.
func TestInputRoundTrip(t *testing.T) {
	for _, o := range allInputOptions() {
		e, err := NewInputEncoder(testChannels, o)
		if err != nil {
			t.Fatal(err)
		}
		d := newDecoder(t, Hold)
		r := newRand(7)
		var got Batch
		for _, rows := range []int{0, 1, 7, 8, 9, 200, 3} {
			in := randomBatch(r, rows, len(testChannels), 5)
			if rows > 7 {
				in.Times[7] = NoTime
				in.X[5] = nan
				in.Missing = []int32{5}
			}
			payload, err := e.Encode(in)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Decode(payload, &got); err != nil {
				t.Fatalf("%+v, %d rows: %v", o, rows, err)
			}
			want := only(in, o)
			want.Missing = in.Missing
			if s := diff(&got, want); s != "" {
				t.Fatalf("%+v, %d rows: %s", o, rows, s)
			}
			if s := diff(reference(t, payload, testChannels, Hold), want); s != "" {
				t.Fatalf("%+v, %d rows, read by the library: %s", o, rows, s)
			}
		}
	}
}

func TestInputEncoderErrors(t *testing.T) {
	if _, err := NewInputEncoder(testChannels, InputOptions{Layout: "rows"}); !errors.Is(err, ErrSchema) {
		t.Errorf("unknown layout: got %v", err)
	}
	if _, err := NewInputEncoder(nil, InputOptions{}); !errors.Is(err, ErrSchema) {
		t.Errorf("no channels: got %v", err)
	}
	e, err := NewInputEncoder(testChannels, InputOptions{Times: true, Ends: true, Keys: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(b *Batch){
		"X":     func(b *Batch) { b.X = b.X[1:] },
		"times": func(b *Batch) { b.Times = nil },
		"ends":  func(b *Batch) { b.Ends = b.Ends[1:] },
		"key":   func(b *Batch) { b.Key = b.Key[1:] },
		"keys":  func(b *Batch) { b.Keys = nil },
	} {
		b := randomBatch(newRand(1), 9, len(testChannels), 3)
		spoil(b)
		if _, err := e.Encode(b); !errors.Is(err, ErrSchema) {
			t.Errorf("wrong %s: got %v, want ErrSchema", name, err)
		}
	}
}
