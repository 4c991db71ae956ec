package plan

import (
	"math"
	"testing"
	"time"
)

var (
	testServer = server{Cores: 10, Memory: 100e9, Network: 1e9, Disk: 500e6, Use: .5}
	testCost   = measured{Cores: 2, Write: 2, Idle: .05, Costs: serviceTimes{Copy: linear{Message: 1e-4}, Snapshot: 3e-9}, Message: 1e-3, Burst: 5e-4, In: 4000, Out: 1000, Payload: 3500, Restore: 1e9, StateBytes: 50e3, States: 1}
)

// Computed by hand: 20,000 machines with one message per second.
func TestEstimate(t *testing.T) {
	p := plant{Machines: 20_000, Rate: 100, Message: 100, Channels: 3}
	e := computeEstimate(p, testServer, testCost, 1, 30*time.Second, 4096)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"cores", e.Cores, 20 + 5*.05 + 1e9/30*3e-9},
		{"servers", float64(e.Servers), 5}, // five usable cores per server; snapshots exceed the capacity of four servers
		{"memory", e.Memory, 20_000*3e3 + 2.2*20_000*50e3 + 5*140e6},
		{"network in", e.NetworkIn, 70e6},
		{"network out", e.NetworkOut, 20e6},
		{"disk a day", e.DiskDay, 20_000 * 5000 * 86400},
		{"disk a second", e.DiskRate, 100e6 + 1e9/30},
		{"restart", e.Stop, .2},                    // 200 MB of states per server
		{"after a kill", e.Kill, 3 + .2 + 15./4},   // a fifth of all cores replays 15 s of input while new input arrives
		{"jobs", float64(e.Jobs), 1},               // 100 MB/s of 250
		{"partitions", float64(e.Partitions), 128}, // at least 80
	} {
		if math.Abs(c.got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if e.First != "cores" {
		t.Errorf("decided by %s, want cores", e.First)
	}
}

// Each scarce resource determines the number of servers; three replicas require three servers,
// and three times the disk.
func TestEstimateLimits(t *testing.T) {
	p := plant{Machines: 20_000, Rate: 100, Message: 100, Channels: 3}
	for resource, change := range map[string]func(s *server, m *measured){
		"memory":  func(s *server, m *measured) { s.Memory = 500e6 },
		"network": func(s *server, m *measured) { s.Network = 20e6 },
		"disk":    func(s *server, m *measured) { s.Disk = 50e6 },
	} {
		s, m := testServer, testCost
		change(&s, &m)
		e := computeEstimate(p, s, m, 1, 30*time.Second, 4096)
		if e.First != resource {
			t.Errorf("decided by %s, want %s: %+v", e.First, resource, e.Needs)
		}
		for _, n := range e.Needs {
			if float64(e.Servers) < n.Servers {
				t.Errorf("%d servers, %s needs %v", e.Servers, n.What, n.Servers)
			}
		}
		if wide := resource != "memory"; (e.Jobs > 1) != wide { // the leader's writing and sending
			t.Errorf("%s short: %d jobs", resource, e.Jobs)
		}
	}
	single, three := computeEstimate(p, testServer, testCost, 1, time.Minute, 4096), computeEstimate(plant{1, 100, 100, 3}, testServer, testCost, 3, time.Minute, 4096)
	if three.Servers != 3 {
		t.Errorf("%d servers keep 3 replicas", three.Servers)
	}
	all := computeEstimate(p, testServer, testCost, 3, time.Minute, 4096)
	if all.DiskDay != 3*single.DiskDay {
		t.Errorf("disk a day %v with 3 replicas, %v with one", all.DiskDay, single.DiskDay)
	}
	if all.DiskRate != 6*single.DiskRate { // each of three servers writes each byte twice: raft's log, and the store
		t.Errorf("disk %v a second with 3 replicas, %v with one", all.DiskRate, single.DiskRate)
	}
	copies := all.Cores - float64(all.Servers)*testCost.Idle - single.Cores + float64(single.Servers)*testCost.Idle
	if want := 3 * 20_000 * 1e-4; math.Abs(copies-want) > 1e-9 {
		t.Errorf("%v cores copy, want %v", copies, want)
	}
	// One goroutine stores all of a job's input: beyond its capacity, there are more jobs.
	slow := testCost
	slow.Costs.Store.Message = 1e-4 // 20,000 messages per second are twice its capacity, and four times the usable capacity
	if e := computeEstimate(p, testServer, slow, 1, time.Minute, 4096); e.Jobs != 4 {
		t.Errorf("%d jobs, want 4", e.Jobs)
	}
	late := testCost
	late.Burst = 1 // beyond the capacity of the servers
	if e := computeEstimate(p, testServer, late, 1, time.Minute, 4096); !math.IsInf(e.Kill, 1) {
		t.Errorf("what came during a kill is answered after %v s by servers that are too slow", e.Kill)
	}
	if n := choosePartitions(1<<20, 4096); n != 4096 {
		t.Errorf("%d partitions, want at most 4096", n)
	}
}

// A plant with minutes between messages is measured as quickly as any other.
func TestEvenRate(t *testing.T) {
	for _, c := range []struct {
		plant plant
		burst float64
		want  float64
	}{
		{plant{Machines: 1, Rate: 1, Message: 600}, 1e-3, minRate},
		{plant{Machines: 500, Rate: 100, Message: 100}, 1e-3, 500},
		{plant{Machines: 5000, Rate: 100, Message: 100}, 1e-3, 1000}, // half of two cores
		{plant{Machines: 1, Rate: 1, Message: 600}, .5, 2},           // half of two cores
	} {
		if got := evenRate(c.plant, .5, 2, c.burst); got != c.want {
			t.Errorf("%+v, %v s each: %v messages a second, want %v", c.plant, c.burst, got, c.want)
		}
	}
}

// divideCosts recovers the parts of two measurements.
func TestCosts(t *testing.T) {
	want := serviceTimes{Store: linear{Message: 11e-6}, Compute: 80e-6, Call: 30e-6, Commit: 200e-6}
	of := func(messages, batches, commits float64) sample {
		worker := messages*want.Compute + batches*want.Call
		rest := messages*2*want.Store.Message + commits*want.Commit
		return sample{cpu: time.Duration(1e9 * (worker + rest)), engine: time.Duration(1e9 * worker), messages: messages, batches: batches, commits: commits}
	}
	got := divideCosts(of(20_000, 100, 800), of(900, 850, 870), want.Store.Message)
	for name, v := range map[string][2]float64{
		"store": {got.Store.cost(1000), want.Store.Message}, "compute": {got.Compute, want.Compute},
		"call": {got.Call, want.Call}, "commit": {got.Commit, want.Commit},
	} {
		if math.Abs(v[0]-v[1]) > 1e-4*v[1] { // whole nanoseconds
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
	// For contradictory measurements: no part is negative, and the sum is kept.
	for _, c := range [][6]float64{{100, 1, 1, 100, 100, .5}, {1, 100, 1, 100, 100, .5}, {10, 10, 1, 10, 10, 2}, {0, 0, 0, 0, 0, 0}, {10, 10, -1, 10, 20, -2}} {
		x, y := solve(c[0], c[1], c[2], c[3], c[4], c[5])
		sum, all := (c[0]+c[3])*x+(c[1]+c[4])*y, max(0, c[2]+c[5])
		if x < 0 || y < 0 || math.Abs(sum-all) > 1e-9 {
			t.Errorf("%v: %v and %v, which is %v of %v", c, x, y, sum, all)
		}
	}
}
