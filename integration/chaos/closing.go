//go:build linux

package main

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// closing is the message after a key's last: rows that end every sequence
// open on any of its streams, so that each final state shows in a prediction.
func (t *truth) closing(key string, seed uint64) *input {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	m := &input{key: key, seq: uint64(len(t.plan.messages[key]) + 1)}
	p := t.keys[key]
	if p == nil || len(p.streams) == 0 {
		t.plan.row(rng, m, "", true)
		return m
	}
	gateway := t.plan.gateway(key)
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		n := t.open(p.streams[id])
		for i := range n {
			column := ""
			if gateway {
				column = id
			}
			t.plan.row(rng, m, column, i == n-1)
		}
	}
	return m
}

// open is how many more samples close every sequence that has samples of the
// stream; with end marks, one sample with a mark is enough.
func (t *truth) open(s *track) int {
	switch p := t.model.Policy; p.Kind {
	case reservoir.Count:
		return p.Length - (s.n - s.start)
	case reservoir.Window:
		return p.Length + p.Hop - s.n%p.Hop
	default:
		return 1
	}
}
