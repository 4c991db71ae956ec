package state

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// stateOfFront returns the state that a log leaves with a front end.
func stateOfFront(t *testing.T, front *reservoir.Front) *owner {
	t.Helper()
	r := rulesOf(reservoir.Policy{Kind: reservoir.Endless, Early: 2})
	r.Front = front
	o := newOwner(t, r)
	log := slices.DeleteFunc(drawLog(drawBytes(3)), func(e entry) bool { return e.promotion != nil })
	o.feedMessages(encodeLog(t, log), func(uint64) bool { return false })
	if o.p.Len() == 0 {
		t.Fatal("no stream: the test has lost its subject")
	}
	return o
}

// A snapshot holds the front end's state and its length.
func TestFormOfFrontState(t *testing.T) {
	without, with := stateOfFront(t, nil).encodeState(), stateOfFront(t, &reservoir.Front{Normalize: 3, Envelope: 2, Decimate: 2}).encodeState()
	if sh, _, err := ShapeIn(without); err != nil || sh.front != 0 || sh.timed {
		t.Errorf("without a front end: shape %+v, %v", sh, err)
	}
	sh, _, err := ShapeIn(with)
	if err != nil || sh.front != 4 || sh.timed {
		t.Errorf("shape %+v, %v", sh, err)
	}
	p, err := Decode(with, sh, 0)
	if err != nil {
		t.Fatal(err)
	}
	moved := false
	for st := range p.Oldest() {
		moved = moved || slices.Max(st.Front) > 0
	}
	if !moved {
		t.Error("all states of front ends are zero: the test has lost its subject")
	}
}

// Impossible states of front ends are refused; the error names the stream.
func TestFrontStateRefused(t *testing.T) {
	o := stateOfFront(t, &reservoir.Front{Center: 3})
	good := o.encodeState()
	edit := func(at int, word uint32) []byte {
		b := slices.Clone(good[:len(good)-sha256.Size])
		binary.LittleEndian.PutUint32(b[at:], word)
		sum := sha256.Sum256(b)
		return append(b, sum[:]...)
	}
	for want, b := range map[string][]byte{
		"it has 2 numbers of a front end, want 4":          edit(76, 2),
		"it has 0 numbers of a front end, want 4":          edit(76, 0),
		"it has 4294967295 numbers of a front end, want 4": edit(76, math.MaxUint32),
		"it has 2 channels, want 1":                        edit(72, 2),
		"version 2, this program reads version 1":          edit(8, 2),
	} {
		if _, err := Decode(b, o.m.Shape, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, n := range []uint32{mostOfShape + 1, math.MaxUint32} {
		if _, _, err := ShapeIn(edit(76, n)); err == nil || !strings.Contains(err.Error(), "numbers of a front end, want at most") {
			t.Errorf("%d numbers: %v", n, err)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(-1), 1e41} {
		st := o.p.recency.Front().Value.(*Stream)
		st.Front[0] = v
		if _, err := Decode(o.encodeState(), o.m.Shape, 0); err == nil || !strings.Contains(err.Error(), "front end: number 0 of its state is") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// Input samples are counted before the front end, for any number of output samples.
func TestFrontLeavesSamplesCounted(t *testing.T) {
	count := func(front *reservoir.Front) (samples, rows int) {
		r := rulesOf(reservoir.Policy{Kind: reservoir.Endless, Early: 2})
		r.Front = front
		o := newOwner(t, r)
		for _, m := range encodeLog(t, drawLog(drawBytes(3))) {
			o.applyMessage(&m)
		}
		return o.fx.Samples, len(o.fx.X)
	}
	all, rows := count(nil)
	samples, fewer := count(&reservoir.Front{Decimate: 2})
	if samples != all || all != rows || fewer == 0 || fewer >= rows {
		t.Errorf("%d samples, %d behind the front end; without one %d and %d", samples, fewer, all, rows)
	}
}
