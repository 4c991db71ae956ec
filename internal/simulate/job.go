package simulate

import (
	"errors"
	"fmt"
	"time"
)

// Arrival is when messages come.
type Arrival string

// The ways in which messages come. Streams send once in Every, always the same distance apart.
const (
	Even         Arrival = "even"         // the streams one after the other, at equal distances
	Random       Arrival = "random"       // at random times: a Poisson process
	Synchronised Arrival = "synchronised" // all streams at the same moment
	Bursts       Arrival = "bursts"       // gateways send for 100 streams at a time, evenly
)

// burst is how many streams a gateway sends for.
const burst = 100

// Arrivals are all there are.
var Arrivals = []Arrival{Even, Random, Synchronised, Bursts}

// Job is what the jobs of a cell have to do together. Partitions are those of each.
type Job struct {
	Streams    int           `json:"streams"`
	Every      time.Duration `json:"every"` // a message of each stream
	Arrival    Arrival       `json:"arrival"`
	Payload    float64       `json:"payload_bytes"` // of a message, as it is sent
	In         float64       `json:"in_bytes"`      // as it is stored
	Out        float64       `json:"out_bytes"`     // of its predictions
	State      float64       `json:"state_bytes"`   // of a stream
	Partitions int           `json:"partitions"`
	Replicas   int           `json:"replicas"`

	Latency          time.Duration `json:"latency"`     // stage.latency
	Most             int           `json:"most"`        // messages of a batch
	SnapshotEvery    time.Duration `json:"snapshot"`    // of a partition
	SnapshotMessages int           `json:"snapshot_at"` // messages
	Lease            time.Duration `json:"lease"`
}

// Costs are service times in seconds of one core, and what else is measured.
type Costs struct {
	Store    Linear  `json:"store"`      // server: take and store a message; to give it to a worker costs as much
	Copy     Linear  `json:"copy"`       // of a message that is replicated: on each of three servers
	Compute  float64 `json:"compute_s"`  // worker: a message
	Call     float64 `json:"call_s"`     // worker: a batch
	Commit   float64 `json:"commit_s"`   // worker: what a commit costs more than a message that is stored
	Snapshot float64 `json:"snapshot_s"` // worker: a byte of a snapshot
	Restore  float64 `json:"restore"`    // bytes a second, of a worker
	Write    float64 `json:"write"`      // bytes that are written for one that is stored
	Idle     float64 `json:"idle"`       // cores that a server without load uses
}

// Linear is what a message costs, by its bytes.
type Linear struct {
	Message float64 `json:"message_s"`
	Byte    float64 `json:"byte_s"`
}

// Of is the cost of a message of so many bytes.
func (l Linear) Of(bytes float64) float64 { return l.Message + l.Byte*bytes }

// Machine is what each server has.
type Machine struct {
	Cores   int     `json:"cores"`
	Network float64 `json:"network_bytes_per_s"` // each way
	Disk    float64 `json:"disk_bytes_per_s"`
	Cache   float64 `json:"cache_bytes"` // unwritten, before writers wait
}

// Cluster is the servers of the cell, and how long they need.
type Cluster struct {
	Servers  int           `json:"servers"`
	Jobs     int           `json:"jobs"`     // that share them and the streams; 0 = 1
	Hop      time.Duration `json:"hop"`      // of a message between two servers, without its bytes
	Election time.Duration `json:"election"` // until another server leads
	Ready    time.Duration `json:"ready"`    // from the start of a worker until it claims, its lease aside
}

// FaultKind is what goes wrong.
type FaultKind string

// The faults.
const (
	KillWorker FaultKind = "worker" // killed, and started again after For
	KillServer FaultKind = "server" // killed with its worker, and not started again
	Uplink     FaultKind = "uplink" // nothing arrives for For, and all of it at once afterwards
)

// Fault is one of them.
type Fault struct {
	Kind   FaultKind     `json:"kind"`
	At     time.Duration `json:"at"`
	For    time.Duration `json:"for,omitempty"`
	Server int           `json:"server,omitempty"` // of which worker, or which server
}

// Cell is what is simulated.
type Cell struct {
	Job     Job           `json:"job"`
	Costs   Costs         `json:"costs"`
	Machine Machine       `json:"machine"`
	Cluster Cluster       `json:"cluster"`
	Faults  []Fault       `json:"faults,omitempty"`
	Warm    time.Duration `json:"warm"` // before latencies and use are counted
	Time    time.Duration `json:"time"` // in all
	Seed    uint64        `json:"seed"`
}

// rate is messages a second.
func (j Job) rate() float64 { return float64(j.Streams) / j.Every.Seconds() }

// jobs is how many share the cell.
func (c *Cell) jobs() int { return max(1, c.Cluster.Jobs) }

// check says what cannot be simulated.
func (c *Cell) check() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("simulate: "+format, args...))
		}
	}
	j := c.Job
	want(j.Streams > 0 && j.Every > 0, "%d streams, a message every %v", j.Streams, j.Every)
	want(j.Replicas == 1 || j.Replicas == 3, "%d replicas: want 1 or 3", j.Replicas)
	want(c.Cluster.Servers >= j.Replicas, "%d servers for %d replicas", c.Cluster.Servers, j.Replicas)
	want(j.Partitions > 0 && j.Most > 0 && j.Latency > 0, "%d partitions, batches of %d messages or %v", j.Partitions, j.Most, j.Latency)
	want(c.Machine.Cores > 0 && c.Machine.Network > 0 && c.Machine.Disk > 0, "a server with %d cores, network %v, disk %v", c.Machine.Cores, c.Machine.Network, c.Machine.Disk)
	want(c.Time > c.Warm, "%v in all, %v before it counts", c.Time, c.Warm)
	known := false
	for _, a := range Arrivals {
		known = known || a == j.Arrival
	}
	want(known, "arrival %q: want one of %v", j.Arrival, Arrivals)
	want(j.State == 0 || c.Costs.Restore > 0, "states that come back at %v bytes a second", c.Costs.Restore)
	for _, f := range c.Faults {
		switch f.Kind {
		case KillWorker:
			want(f.Server >= 0 && f.Server < c.Cluster.Servers, "worker %d of %d", f.Server, c.Cluster.Servers)
		case KillServer:
			want(j.Replicas == 3 && f.Server >= 0 && f.Server < c.Cluster.Servers, "server %d of %d, %d replicas", f.Server, c.Cluster.Servers, j.Replicas)
		case Uplink:
			want(f.For > 0, "an outage of %v", f.For)
		default:
			want(false, "fault %q", f.Kind)
		}
	}
	return errors.Join(errs...)
}
