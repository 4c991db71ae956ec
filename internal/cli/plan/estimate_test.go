package plan

import (
	"math"
	"testing"
	"time"
)

var (
	testServer = server{Cores: 10, Memory: 100e9, Network: 1e9, Disk: 500e6, Use: .5}
	testCost   = measured{Cores: 2, Message: 1e-3, Burst: 5e-4, In: 4000, Out: 1000, Payload: 3500, Restore: 1e9, StateBytes: 50e3, States: 1}
)

// Computed by hand: 20,000 machines with a message a second.
func TestEstimate(t *testing.T) {
	p := plant{Machines: 20_000, Rate: 100, Message: 100, Channels: 3}
	e := compute(p, testServer, testCost, 1, 30*time.Second, 4096)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"cores", e.Cores, 20},
		{"servers", float64(e.Servers), 4}, // five cores of each may be used
		{"memory", e.Memory, 20_000*3e3 + 2.2*20_000*50e3 + 4*140e6},
		{"network in", e.NetworkIn, 70e6},
		{"network out", e.NetworkOut, 20e6},
		{"disk a day", e.DiskDay, 20_000 * 5000 * 86400},
		{"disk a second", e.DiskRate, 100e6 + 1e9/30},
		{"restart", e.Stop, .25},                   // 250 MB of states each
		{"after a kill", e.Kill, 3 + .25 + 15./3},  // a quarter of all cores replays 15 s of input, with more coming
		{"jobs", float64(e.Jobs), 1},               // 100 MB/s of 250
		{"partitions", float64(e.Partitions), 128}, // 80 at least
	} {
		if math.Abs(c.got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if e.First != "cores" {
		t.Errorf("decided by %s, want cores", e.First)
	}
}

// Each resource decides where it is short; three replicas take three servers, and three
// times the disk.
func TestEstimateLimits(t *testing.T) {
	p := plant{Machines: 20_000, Rate: 100, Message: 100, Channels: 3}
	for what, change := range map[string]func(s *server, m *measured){
		"memory":  func(s *server, m *measured) { s.Memory = 500e6 },
		"network": func(s *server, m *measured) { s.Network = 20e6 },
		"disk":    func(s *server, m *measured) { s.Disk = 50e6 },
	} {
		s, m := testServer, testCost
		change(&s, &m)
		e := compute(p, s, m, 1, 30*time.Second, 4096)
		if e.First != what {
			t.Errorf("decided by %s, want %s: %+v", e.First, what, e.Needs)
		}
		for _, n := range e.Needs {
			if float64(e.Servers) < n.Servers {
				t.Errorf("%d servers, %s needs %v", e.Servers, n.What, n.Servers)
			}
		}
		if wide := what != "memory"; (e.Jobs > 1) != wide { // what a leader writes and sends
			t.Errorf("%s short: %d jobs", what, e.Jobs)
		}
	}
	one, three := compute(p, testServer, testCost, 1, time.Minute, 4096), compute(plant{1, 100, 100, 3}, testServer, testCost, 3, time.Minute, 4096)
	if three.Servers != 3 {
		t.Errorf("%d servers keep 3 replicas", three.Servers)
	}
	if all := compute(p, testServer, testCost, 3, time.Minute, 4096); all.DiskDay != 3*one.DiskDay {
		t.Errorf("disk a day %v with 3 replicas, %v with one", all.DiskDay, one.DiskDay)
	}
	late := testCost
	late.Burst = 1 // more than the servers can do
	if e := compute(p, testServer, late, 1, time.Minute, 4096); !math.IsInf(e.Kill, 1) {
		t.Errorf("what came during a kill is answered after %v s by servers that are too slow", e.Kill)
	}
	if n := partitions(1<<20, 4096); n != 4096 {
		t.Errorf("%d partitions, want at most 4096", n)
	}
}

// A plant whose messages are minutes apart is measured as quickly as any other.
func TestEvenRate(t *testing.T) {
	for _, c := range []struct {
		plant plant
		burst float64
		want  float64
	}{
		{plant{Machines: 1, Rate: 1, Message: 600}, 1e-3, leastRate},
		{plant{Machines: 500, Rate: 100, Message: 100}, 1e-3, 500},
		{plant{Machines: 5000, Rate: 100, Message: 100}, 1e-3, 1000}, // what half of two cores do
		{plant{Machines: 1, Rate: 1, Message: 600}, .5, 2},           // likewise
	} {
		if got := evenRate(c.plant, .5, 2, c.burst); got != c.want {
			t.Errorf("%+v, %v s each: %v messages a second, want %v", c.plant, c.burst, got, c.want)
		}
	}
}
