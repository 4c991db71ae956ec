package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Status is the current condition of a running stage.
type Status struct {
	Running   bool // connected, now or before; false during the start, and after the end
	Connected bool // all connections to the server are up
	Stopping  bool
	// Renewed is the last time when this worker renewed the lease and knew the worker's
	// share of the partitions; zero before the first time. If older than Lease, other
	// workers may take the partitions.
	Renewed time.Time
	Lease   time.Duration

	Worker     string   // its name in the job's list
	Engines    []string // names of the shards' engines, each once
	Arithmetic string   // of the engines, see reservoir.Engine
	Model      string   // fingerprint
	ModelName  string   // Job.ModelName, or the name of the job's model if the worker uses that model
	Readout    string   // its name in the model

	MaxRows    int // state rows that all shards' engines may hold
	MaxStreams int // streams that a partition may remember
	// Consumers is the number of consumers of the job's input or output, whichever has
	// less room, and MaxConsumers its limit; 0 until known from the server.
	Consumers, MaxConsumers int64
	// Partitions are the assigned partitions and partitions not yet released,
	// ascending.
	Partitions []PartitionHealth
}

// PartitionHealth is the condition of one partition on a worker.
type PartitionHealth struct {
	Partition int
	Share     bool // assigned to this worker
	Phase     Phase
	Err       error // the reason if Stopped or Deferred
	Epoch     uint64
	// Lag is how many input messages are stored but not answered, as far as
	// the worker has heard: with each message, the server says how many
	// follow.
	Lag int64
	// LagTime is the age of the oldest stored and unanswered message, by the server's
	// storage time. The worker asks the server for that message every two seconds; for
	// a waiting message that it could not ask for, LagTime is the age of the newest
	// message read. 0 = none waits; UnknownLag = not asked yet, or no answer.
	LagTime time.Duration
	// Unsaved is the time of the first message answered here without a snapshot in use;
	// zero if there is none. A restart replays these messages.
	Unsaved time.Time
	// Waiting is a request that the server has not accepted for longer than a lease,
	// for example because a NATS stream is full or missing; empty if none.
	Waiting string
}

// UnknownLag is the LagTime of a partition whose delay is unknown.
const UnknownLag = time.Duration(owner.UnknownLag)

// Phase is a worker's activity on a partition.
type Phase string

// The phases of a partition, in order.
const (
	Claiming  Phase = "claiming"  // may wait for a release by the previous owner
	Restoring Phase = "restoring" // reading its snapshot
	Replaying Phase = "replaying" // the input after the snapshot, without output
	Reading   Phase = "reading"
	Releasing Phase = "releasing" // to be another's, or at a stop
	Deferred  Phase = "deferred"  // the server refuses a request, or does not answer: reclaimed automatically
	Stopped   Phase = "stopped"   // by an error in the log; no input is answered
)

// Phases lists all phases.
func Phases() []Phase {
	return []Phase{Claiming, Restoring, Replaying, Reading, Releasing, Deferred, Stopped}
}

// Unready returns the reasons why the stage does not work on all of its share, a line
// for each; nil if it does.
func (s *Status) Unready() []string {
	switch {
	case !s.Running:
		return []string{"the stage is starting, or has ended"}
	case s.Stopping:
		return []string{"the stage is stopping"}
	}
	var why []string
	if !s.Connected {
		why = append(why, "a connection to the NATS server is down")
	}
	switch {
	case s.Renewed.IsZero():
		return append(why, "this worker has not joined the job's others yet")
	case time.Since(s.Renewed) > 2*s.Lease:
		why = append(why, fmt.Sprintf("this worker's lease was last renewed %v ago: the server does not answer", time.Since(s.Renewed).Round(time.Second)))
	}
	for _, p := range s.Partitions {
		switch {
		case p.Phase == Stopped || p.Phase == Deferred:
			why = append(why, fmt.Sprintf("partition %d: %s: %s", p.Partition, p.Phase, wire.OneLine(errtext.For(p.Err))))
		case p.Waiting != "":
			why = append(why, fmt.Sprintf("partition %d: publish failed, retrying: %s", p.Partition, wire.OneLine(p.Waiting)))
		case p.Phase == Reading || p.Phase == Releasing && !p.Share:
		default:
			why = append(why, fmt.Sprintf("partition %d: %s", p.Partition, p.Phase))
		}
	}
	return why
}

// Status returns the condition of the stage that counts into c.
func (c *Counters) Status() Status {
	r := c.running.Load()
	if r == nil {
		return Status{}
	}
	s := Status{
		Running: true, Connected: r.conns.allConnected(), Stopping: r.stopping.Load(), Lease: r.cfg.Lease,
		Worker: r.self.worker, Arithmetic: reservoir.Canonical, Model: r.self.meta.SHA256, ModelName: r.self.meta.Model, Readout: r.self.meta.Readout,
		MaxRows: r.cfg.MaxSlots * len(r.shards), MaxStreams: r.cfg.MaxStreams,
		Consumers: c.counts.Server.Consumers.Load(), MaxConsumers: c.counts.Server.ConsumerLimit.Load(),
	}
	for _, sh := range r.shards {
		s.Engines = append(s.Engines, sh.EngineName())
		if sh.Arithmetic != "" {
			s.Arithmetic = sh.Arithmetic
		}
	}
	slices.Sort(s.Engines)
	s.Engines = slices.Compact(s.Engines)
	if v := r.view.Load(); v != nil {
		s.Renewed, s.Partitions = v.renewed, v.listPartitions()
	}
	return s
}

// totalLag returns the sum over all partitions.
func (c *Counters) totalLag() (n int64) {
	r := c.running.Load()
	if r == nil {
		return 0
	}
	if v := r.view.Load(); v != nil {
		for _, t := range v.owned {
			n += t.Lag()
		}
	}
	return n
}

// view is the manager's published data on its partitions. It is replaced, never
// modified.
type view struct {
	renewed time.Time
	share   []int // assigned partitions
	owned   map[int]*owner.Ownership
	stopped map[int]error
	later   map[int]error
}

// publishView publishes the manager's data for Status.
func (m *manager) publishView() {
	later := map[int]error{}
	for p, w := range m.deferred {
		later[p] = w.err
	}
	m.run.view.Store(&view{m.renewed, m.share, maps.Clone(m.owned), maps.Clone(m.stopped), later})
}

func (v *view) listPartitions() []PartitionHealth {
	ids := slices.AppendSeq(slices.Clone(v.share), maps.Keys(v.owned))
	slices.Sort(ids)
	var all []PartitionHealth
	for _, id := range slices.Compact(ids) {
		p := PartitionHealth{Partition: id, Share: slices.Contains(v.share, id), Phase: Claiming}
		if t := v.owned[id]; t != nil {
			h := t.Health()
			p.Phase, p.Err, p.Epoch, p.Lag, p.LagTime, p.Unsaved, p.Waiting = Phase(h.Phase), h.Err, h.Epoch, h.Lag, h.LagTime, h.Unsaved, h.Waiting
		} else if err := v.stopped[id]; err != nil {
			p.Phase, p.Err = Stopped, err
		} else if err := v.later[id]; err != nil {
			p.Phase, p.Err = Deferred, err
		}
		all = append(all, p)
	}
	return all
}

// shownOwnerships returns the ownerships published by the manager.
func (r *run) shownOwnerships() map[int]*owner.Ownership {
	if v := r.view.Load(); v != nil {
		return v.owned
	}
	return nil
}
