package shard

import "github.com/eusn-stream/eusn-stream/internal/pipeline/state"

// Passed counts the input of a stream.
type Passed struct {
	Key, Stream  string
	Samples      uint64 // input samples
	Begun, Ended uint64 // sequences of its states
}

// StreamName names a stream of a partition.
type StreamName struct{ Key, ID string }

// CountStreams counts the input of each stream from now on. States are computed as
// before.
func (d *Direct) CountStreams() map[StreamName]*Passed {
	c := counter{}
	d.shard.Machine.Taken = func(t *state.Taken) { c.countOf(t.Stream).Samples += uint64(t.Samples.Count) }
	d.shard.follow = c
	return c
}

// counter counts the input of streams.
type counter map[StreamName]*Passed

func (c counter) countOf(st *state.Stream) *Passed {
	name := StreamName{st.Source.Key, st.ID}
	if c[name] == nil {
		c[name] = &Passed{Key: name.Key, Stream: name.ID}
	}
	return c[name]
}

func (c counter) beginMessage() {}

func (c counter) takesRun(_ *Batch, r *state.Run, _ int) bool {
	p := c.countOf(r.Stream)
	if r.Reset {
		p.Begun++
	}
	if r.End || r.Drop {
		p.Ended++
	}
	return true
}
