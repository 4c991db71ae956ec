package simulate

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// cell is one that has room for all that comes.
func cell() Cell {
	return Cell{
		Job: Job{Streams: 5000, Every: time.Second, Arrival: Even, Payload: 2500, In: 2700, Out: 300, State: 50e3, Partitions: 16, Replicas: 1,
			Latency: 5 * time.Millisecond, Most: 320, SnapshotEvery: 30 * time.Second, SnapshotMessages: 4096, Lease: 3 * time.Second},
		Costs:   Costs{Store: Linear{5e-6, 2e-9}, Copy: Linear{10e-6, 2e-9}, Compute: 80e-6, Call: 20e-6, Commit: 60e-6, Snapshot: 2e-9, Restore: 1e9, Write: 1},
		Machine: Machine{Cores: 4, Network: 1e9, Disk: 5e8, Cache: 1e9},
		Cluster: Cluster{Servers: 1, Hop: 200 * time.Microsecond, Election: 4 * time.Second, Ready: 500 * time.Millisecond},
		Warm:    2 * time.Second, Time: 8 * time.Second, Seed: 1,
	}
}

func simulated(t *testing.T, c Cell) *Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Result) share(what string) float64 {
	for _, u := range r.Use {
		if u.What == what {
			return u.Share
		}
	}
	return -1
}

// Every message is answered once; the work of the cores is the sum of the service times
// (the utilisation law), and as many wait as come in the mean time of one (Little's law).
func TestLaws(t *testing.T) {
	for _, arrival := range Arrivals {
		for _, servers := range []int{1, 4} {
			c := cell()
			c.Job.Arrival, c.Cluster.Servers = arrival, servers
			if servers > 1 {
				c.Job.Replicas, c.Cluster.Jobs = 3, 2
			}
			c.Job.State = 0
			c.Warm = 0
			r := simulated(t, c)
			if r.Left > 200 || arrival != Random && r.Messages != 5000*8 {
				t.Errorf("%s, %d servers: %d messages, %d without an answer", arrival, servers, r.Messages, r.Left)
			}
			n, secs := float64(r.Messages), c.Time.Seconds()
			out := c.Job.Out / r.Commits // bytes of a commit
			each := 2*c.Costs.Store.Of(c.Job.Payload) + c.Costs.Compute + c.Costs.Call/r.Batch + (c.Costs.Commit+c.Costs.Store.Of(out))*r.Commits
			if servers > 1 { // three servers copy a message and a commit
				each += 3 * (c.Costs.Copy.Of(c.Job.Payload) + c.Costs.Copy.Of(out)*r.Commits)
			}
			// What is under way at the end has not done all of its work.
			if want := n * each / secs; math.Abs(r.Cores-want) > .01*want {
				t.Errorf("%s, %d servers: %v cores, want %v", arrival, servers, r.Cores, want)
			}
			if want := n / secs * r.Mean; math.Abs(r.Waiting-want) > .004*want {
				t.Errorf("%s, %d servers: %v wait, want %v", arrival, servers, r.Waiting, want)
			}
			stored := c.Job.In*n + c.Job.Out*n
			if servers == 1 {
				if got, want := r.share("disk"), stored/secs/c.Machine.Disk; math.Abs(got-want) > .01*want {
					t.Errorf("%s: disk %v, want %v", arrival, got, want)
				}
			}
		}
	}
}

// A message that comes alone waits for the batch's time, for its work and its commit, and
// for nothing else.
func TestAlone(t *testing.T) {
	c := cell()
	c.Job.Streams, c.Job.State = 10, 0
	r := simulated(t, c)
	k := c.Costs
	want := 1e3 * (c.Job.Payload/c.Machine.Network + 2*k.Store.Of(c.Job.Payload) + c.Job.Latency.Seconds() + k.Call + k.Compute + k.Commit + k.Store.Of(c.Job.Out))
	for what, got := range map[string]float64{"p50": r.P50, "p99": r.P99, "max": r.Max} {
		if math.Abs(got-want) > 1e-5*want { // float32
			t.Errorf("%s %v ms, want %v", what, got, want)
		}
	}
	if math.Abs(r.Batch-1) > .02 || math.Abs(r.Commits-1) > .02 { // those under way at both ends
		t.Errorf("%v messages in a batch, %v commits each", r.Batch, r.Commits)
	}
	// With three servers: three hops more for input, commit and its answer, and the copies.
	c.Job.Replicas, c.Cluster.Servers = 3, 3
	c.Job.Partitions = 3
	if r := simulated(t, c); r.P50 < want+3*.2 || r.P50 > want+8*.2+1 {
		t.Errorf("three servers: p50 %v ms, one %v", r.P50, want)
	}
}

func TestSameSeed(t *testing.T) {
	c := cell()
	c.Job.Arrival, c.Cluster.Servers, c.Job.Replicas = Random, 3, 3
	c.Faults = []Fault{{Kind: KillServer, At: 8 * time.Second, Server: 0}}
	if a, b := simulated(t, c), simulated(t, c); !reflect.DeepEqual(a, b) {
		t.Error("the same seed gives two results")
	}
	c.Seed = 2
	if a, b := simulated(t, cell()), simulated(t, c); a.P99 == b.P99 {
		t.Error("two seeds give one result")
	}
}

// A load that is more than a resource can do breaks that one.
func TestBreaks(t *testing.T) {
	for what, change := range map[string]func(*Cell){
		"cores": func(c *Cell) { c.Machine.Cores, c.Job.Streams = 1, 9000 },
		"input's goroutine": func(c *Cell) {
			c.Cluster.Servers, c.Job.Replicas, c.Costs.Copy.Message = 3, 3, 210e-6
			c.Job.Latency = 50 * time.Millisecond
		},
		"output's goroutine": func(c *Cell) { c.Costs.Store, c.Job.Out, c.Job.Payload = Linear{0, 1e-7}, 2500, 1000 },
		"network in":         func(c *Cell) { c.Machine.Network = 12e6 },
		"disk":               func(c *Cell) { c.Machine.Disk = 10e6 },
		"shard":              func(c *Cell) { c.Costs.Compute, c.Job.Partitions = 300e-6, 1 },
	} {
		c := cell()
		change(&c)
		r := simulated(t, c)
		if u, broken := r.Broken(); !broken || u.What != what {
			t.Errorf("%s is short, but %+v breaks", what, r.Use)
		}
	}
	if u, broken := simulated(t, cell()).Broken(); broken {
		t.Errorf("%+v breaks under a light load", u)
	}
}

// Faults: nothing is lost, all is caught up, and the backlog is what came meanwhile.
func TestFaults(t *testing.T) {
	one := cell()
	one.Job.State = 10e3
	one.Job.Streams, one.Time = 1500, 30*time.Second
	three := one
	three.Job.Replicas, three.Cluster.Servers = 3, 3
	for name, c := range map[string]struct {
		cell     Cell
		fault    Fault
		low, top float64 // of the peak, in seconds of input
	}{
		"a worker that comes back":       {one, Fault{Kind: KillWorker, At: 10 * time.Second, For: time.Second}, 3.5, 4.2},
		"the only worker, for long":      {one, Fault{Kind: KillWorker, At: 10 * time.Second, For: 6 * time.Second}, 6.5, 7.2},
		"one of three":                   {three, Fault{Kind: KillWorker, At: 10 * time.Second, For: 20 * time.Second, Server: 2}, .9, 1.5},
		"the input's leader":             {three, Fault{Kind: KillServer, At: 10 * time.Second, Server: 0}, 4, 4.6},
		"the output's leader":            {three, Fault{Kind: KillServer, At: 10 * time.Second, Server: 1}, 4, 4.6},
		"a follower of the input":        {three, Fault{Kind: KillServer, At: 10 * time.Second, Server: 2}, .9, 1.5},
		"the uplink, and all afterwards": {three, Fault{Kind: Uplink, At: 10 * time.Second, For: 5 * time.Second}, 4.3, 5.1},
	} {
		c.cell.Faults = []Fault{c.fault}
		r := simulated(t, c.cell)
		got := r.Faults[0]
		if r.Left > 100 || got.CaughtUp < 0 || got.CaughtUp > 20 {
			t.Errorf("%s: %d are left, caught up %v s", name, r.Left, got.CaughtUp)
		}
		if secs := float64(got.Peak) / c.cell.Job.rate(); secs < c.low || secs > c.top {
			t.Errorf("%s: a peak of %.2f s, want %v to %v", name, secs, c.low, c.top)
		}
	}
}

func TestRefuses(t *testing.T) {
	c := cell()
	c.Job.Arrival, c.Job.Replicas, c.Time, c.Machine.Cores = "often", 3, time.Second, 0
	c.Faults = []Fault{{Kind: KillWorker, Server: 9}, {Kind: KillServer, Server: -1}, {Kind: Uplink}, {Kind: "fire"}}
	_, err := Run(c)
	if err == nil {
		t.Fatal("simulated")
	}
	for _, want := range []string{"often", "1 servers for 3 replicas", "0 cores", "1s in all", "worker 9 of 1", "server -1", "outage of 0s", "fire"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
