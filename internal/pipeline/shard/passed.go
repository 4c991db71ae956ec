package shard

import "github.com/eusn-stream/eusn-stream/internal/pipeline/state"

// Passed is what a stream got.
type Passed struct {
	Key, Stream  string
	Samples      uint64 // as they came in
	Begun, Ended uint64 // sequences of its states
}

// StreamName names a stream of a partition.
type StreamName struct{ Key, ID string }

// Count counts what each stream gets from now on. States are computed as before.
func (d *Direct) Count() map[StreamName]*Passed {
	c := counter{}
	d.shard.Machine.Taken = func(t *state.Taken) { c.of(t.Stream).Samples += uint64(t.Samples.Count) }
	d.shard.follow = c
	return c
}

// counter counts what streams get.
type counter map[StreamName]*Passed

func (c counter) of(st *state.Stream) *Passed {
	name := StreamName{st.Source.Key, st.ID}
	if c[name] == nil {
		c[name] = &Passed{Key: name.Key, Stream: name.ID}
	}
	return c[name]
}

func (c counter) begin() {}

func (c counter) follows(_ *Batch, r *state.Run, _ int) bool {
	p := c.of(r.Stream)
	if r.Reset {
		p.Begun++
	}
	if r.End || r.Drop {
		p.Ended++
	}
	return true
}
