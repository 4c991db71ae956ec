package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Status is where a running stage stands now.
type Status struct {
	Running   bool // it is connected, or was; false while it starts, and after its end
	Connected bool // all of its connections to the server are up
	Stopping  bool
	// Renewed is when the job's workers last heard from this one, and it knew
	// its share of the partitions; zero before the first time. Older than
	// Lease, others may take its partitions.
	Renewed time.Time
	Lease   time.Duration

	Worker     string   // its name among the job's
	Engines    []string // names of the shards' engines, each once
	Arithmetic string   // theirs, Engine.Arithmetic
	Model      string   // fingerprint
	ModelName  string   // as Stage.ModelName, or that of the job's model where the worker took that
	Readout    string   // its name in the model

	MaxRows    int // state rows that all shards' engines may hold
	MaxStreams int // streams that a partition may remember
	// Consumers are those of the job's input or output, of the one with less room, and
	// MaxConsumers is how many it may have; 0 until the server has said so.
	Consumers, MaxConsumers int64
	// Partitions are those that fall to this worker and those it has not
	// given up yet, ascending.
	Partitions []PartitionHealth
}

// PartitionHealth is where one partition stands on a worker.
type PartitionHealth struct {
	Partition int
	Share     bool // it falls to this worker
	Phase     Phase
	Err       error // why it is Stopped or Deferred
	Epoch     uint64
	// Lag is how many input messages are stored but not answered, as far as
	// the worker has heard: with each message, the server says how many
	// follow.
	Lag int64
	// LagTime is how old the oldest message is that is stored and not answered, by the time at
	// which the server stored it. The worker asks the server for that message every two seconds;
	// where one waits that it could not ask for, it is the age of the newest one that was read.
	// 0 = none waits; UnknownLag = the server was not asked yet, or has not answered.
	LagTime time.Duration
	// Unsaved is since when messages have been answered here that no snapshot
	// in use holds; zero where there are none. A restart replays them.
	Unsaved time.Time
	// Waiting says what the server has not taken for longer than a lease, as
	// while a NATS stream is full or gone; empty where nothing waits.
	Waiting string
}

// UnknownLag is a LagTime that is not known.
const UnknownLag = time.Duration(owner.UnknownLag)

// Phase is what a worker does with a partition.
type Phase string

// The phases, in the order in which a partition goes through them.
const (
	Claiming  Phase = "claiming"  // perhaps waiting for its last owner to release it
	Restoring Phase = "restoring" // reading its snapshot
	Replaying Phase = "replaying" // the input behind the snapshot, silently
	Reading   Phase = "reading"
	Releasing Phase = "releasing" // to be another's, or at a stop
	Deferred  Phase = "deferred"  // the server refuses what it needs, or does not answer: claimed again by itself
	Stopped   Phase = "stopped"   // by an error that the log tells; nothing of it is answered
)

// Phases lists them all.
func Phases() []Phase {
	return []Phase{Claiming, Restoring, Replaying, Reading, Releasing, Deferred, Stopped}
}

// Unready says why the stage does not work on all of its share, a line for
// each reason; nil where it does.
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
			why = append(why, fmt.Sprintf("partition %d: %s: %s", p.Partition, p.Phase, wire.OneLine(fmt.Sprint(p.Err))))
		case p.Waiting != "":
			why = append(why, fmt.Sprintf("partition %d: publish failed, retrying: %s", p.Partition, wire.OneLine(p.Waiting)))
		case p.Phase == Reading || p.Phase == Releasing && !p.Share:
		default:
			why = append(why, fmt.Sprintf("partition %d: %s", p.Partition, p.Phase))
		}
	}
	return why
}

// Status reads where the stage that counts into c stands.
func (c *Counters) Status() Status {
	r := c.running.Load()
	if r == nil {
		return Status{}
	}
	s := Status{
		Running: true, Connected: r.conns.connected(), Stopping: r.stopping.Load(), Lease: r.cfg.Lease,
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
		s.Renewed, s.Partitions = v.renewed, v.partitions()
	}
	return s
}

// lag is that of all partitions together.
func (c *Counters) lag() (n int64) {
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

// view is what the manager shows of its partitions. It is replaced, never
// changed.
type view struct {
	renewed time.Time
	share   []int // partitions that fall to this worker
	owned   map[int]*owner.Ownership
	stopped map[int]error
	later   map[int]error
}

// show makes what the manager knows visible to Status.
func (m *manager) show() {
	later := map[int]error{}
	for p, w := range m.deferred {
		later[p] = w.err
	}
	m.run.view.Store(&view{m.renewed, m.share, maps.Clone(m.owned), maps.Clone(m.stopped), later})
}

func (v *view) partitions() []PartitionHealth {
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

// ownerships are those that the manager has shown.
func (r *run) ownerships() map[int]*owner.Ownership {
	if v := r.view.Load(); v != nil {
		return v.owned
	}
	return nil
}
