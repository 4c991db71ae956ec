package pipeline

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"

	"github.com/nats-io/nats.go/jetstream"
)

// A fault must occur in two checks; in a cluster, for staleGrace.
func TestWatchLooksTwice(t *testing.T) {
	w := &streamMonitor{wrong: map[string]time.Time{}}
	if w.faultLasts("a", true, false) || w.faultLasts("a", false, false) || w.faultLasts("a", true, false) || !w.faultLasts("a", true, false) {
		t.Error("alone: want the second of two looks in a row")
	}
	for range 2 {
		if w.faultLasts("b", true, true) {
			t.Error("clustered: a new leader's past taken for a loss")
		}
	}
	w.wrong["b"] = time.Now().Add(-store.StaleGrace - time.Second)
	if !w.faultLasts("b", true, true) {
		t.Error("clustered: a loss that stays is none")
	}
}

// A nearly reached limit of consumers is reported once, and reported again after their
// number fell; the figures are those of the NATS stream with less room.
func TestFewConsumersLeft(t *testing.T) {
	book := &pipelinetest.LogBook{}
	w := newMonitor(&owner.Worker{Log: book.Logger()}, nil, nil, nil)
	for i, step := range []struct {
		in, out int
		want    crowd
		told    int
	}{{8, 0, crowd{8, 10}, 0}, {9, 3, crowd{9, 10}, 1}, {10, 3, crowd{10, 10}, 1}, {1, 4, crowd{4, 4}, 2}, {1, 0, crowd{1, 10}, 2}, {9, 0, crowd{9, 10}, 3}, {0, 0, crowd{0, 4}, 3}} {
		var full crowd
		for name, has := range map[string]int{"J-IN": step.in, "J-OUT": step.out} {
			limit := map[string]int{"J-IN": 10, "J-OUT": 4}[name]
			full = full.fullerOf(w.checkConsumers(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: name, MaxConsumers: limit}, State: jetstream.StreamState{Consumers: has}}))
		}
		if full.has != step.want.has || full.has > 0 && full != step.want || book.Lines("almost reached its limit of consumers") != step.told {
			t.Errorf("look %d: %+v, told %d times; want %+v", i+1, full, book.Lines("almost reached its limit of consumers"), step)
		}
	}
}

// A lagging replica is reported once, and so is its recovery.
func TestReplicasBehind(t *testing.T) {
	book := &pipelinetest.LogBook{}
	w := newMonitor(&owner.Worker{Log: book.Logger(), Counters: new(stats.Counters)}, nil, nil, nil)
	look := func(current bool) {
		w.checkReplicas(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "J-OUT"}, Cluster: &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{{Name: "n1", Current: true}, {Name: "n2", Current: current, Lag: 7}}}})
		for what := range w.wrong { // time passes
			w.wrong[what] = w.wrong[what].Add(-store.StaleGrace)
		}
	}
	for i, step := range []struct {
		current             bool
		behind, told, again int
	}{{false, 0, 0, 0}, {true, 0, 0, 0}, {false, 0, 0, 0}, {false, 1, 1, 0}, {false, 1, 1, 0}, {true, 0, 1, 1}, {true, 0, 1, 1}} {
		look(step.current)
		if n, told, again := int(w.worker.Counters.Server.Behind.Load()), book.Lines("is not current"), book.Lines("current again"); n != step.behind || told != step.told || again != step.again {
			t.Errorf("look %d: %d behind, told %d times, current again %d times; want %v", i+1, n, told, again, step)
		}
	}
}
