//go:build linux

package main

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// closingRows returns the message after a key's last: rows that end every open sequence
// of the key's streams, so that a prediction shows each final state.
func (t *truth) closingRows(key string, seed uint64) *input {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	m := &input{key: key, seq: uint64(len(t.plan.messages[key]) + 1)}
	p := t.keys[key]
	if p == nil || len(p.streams) == 0 {
		t.plan.addRow(rng, m, "", true)
		return m
	}
	gateway := t.plan.isGateway(key)
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		n := t.countOpenRows(p.streams[id])
		for i := range n {
			column := ""
			if gateway {
				column = id
			}
			t.plan.addRow(rng, m, column, i == n-1)
		}
	}
	return m
}

// countOpenRows returns the number of samples that close every sequence with samples of
// the stream; with end marks, one marked sample is enough.
func (t *truth) countOpenRows(s *track) int {
	switch p := t.model.Policy; p.Kind {
	case reservoir.Count:
		return p.Length - (s.n - s.start)
	case reservoir.Window:
		return p.Length + p.Hop - s.n%p.Hop
	default:
		return 1
	}
}
