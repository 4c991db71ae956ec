package pipeline_test

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Two workers with clocks an hour apart share the partitions, and take over the
// partitions of a killed worker: no worker's clock decides anything.
func TestClocksAnHourApart(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(16, 90)
	packets, sent := pipelinetest.Mixed(streams, 41)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("clocks", 4)
	c.Lease = 3 * time.Second // long enough for a slow machine
	third := len(packets) / 3
	at := func(off time.Duration) *running {
		b.now = func() time.Time { return time.Now().Add(off) }
		return b.startStage(m, c)
	}
	early := at(-30 * time.Minute)
	b.publishPackets(packets[:third])
	late := at(30 * time.Minute)
	for _, r := range []*running{early, late} {
		r.waitUntil(t, "its half of the partitions", func(s pipeline.Stats) bool { return s.Owned == 2 })
	}
	b.publishPackets(packets[third : 2*third])
	epochs := func() (all []uint64) {
		for p := range c.Partitions {
			_, r := b.lastRecord("clocks", p)
			all = append(all, r.Epoch)
		}
		return all
	}
	before := epochs()
	time.Sleep(c.Lease / 2) // each renews its lease and reads the other's
	for p, e := range epochs() {
		if e != before[p] {
			t.Errorf("partition %d was claimed again while both workers lived", p)
		}
	}
	early.crashStage(t)
	b.publishPackets(packets[2*third:])
	late.waitUntil(t, "all partitions", func(s pipeline.Stats) bool { return s.Owned == 4 })
	got := b.awaitPredictions("clocks", count(exp))
	late.stopStage(t)
	same(t, got, exp)
}
