package plan

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// plant describes the monitored machines.
type plant struct {
	Machines int     `json:"machines"`
	Rate     float64 `json:"samples_per_s"`       // per machine
	Message  int     `json:"samples_per_message"` // per machine
	Channels int     `json:"channels"`
}

// messages returns the messages per second of all machines.
func (p plant) messages() float64 { return float64(p.Machines) * p.Rate / float64(p.Message) }

// server describes one server, and the usable fraction of its resources.
type server struct {
	Cores   int     `json:"cores"`
	Memory  float64 `json:"memory_bytes"`
	Network float64 `json:"network_bytes_per_s"` // in each direction
	Disk    float64 `json:"disk_bytes_per_s"`    // written
	Use     float64 `json:"use"`                 // usable fraction of cores, network and disk
}

// measured is the cost of a stage with its server on this machine.
type measured struct {
	Cores      int     `json:"cores"`                      // of this machine
	Rate       float64 `json:"messages_per_s"`             // rate of the measurement of Message
	Idle       float64 `json:"idle_cores"`                 // without messages
	Message    float64 `json:"cpu_s_per_message"`          // additional CPU time: reading, engine, commit and server
	Burst      float64 `json:"cpu_s_per_message_together"` // the same for many messages at once, as after a restart
	In         float64 `json:"in_bytes_per_message"`       // stored
	Out        float64 `json:"out_bytes_per_message"`
	Payload    float64 `json:"payload_bytes"`       // of a message as sent
	Late       bool    `json:"late"`                // this machine was too slow for the rate: the cost is underestimated
	Restore    float64 `json:"restore_bytes_per_s"` // of states, from a snapshot
	StateBytes float64 `json:"state_bytes"`         // of one open sequence
	States     int     `json:"states_per_machine"`
	Write      float64 `json:"written_per_stored"` // written bytes, stored on three servers

	Costs serviceTimes `json:"service_times"`
}

// serviceTimes is the CPU time in seconds of each part of a message's path.
type serviceTimes struct {
	Store    linear  `json:"store"`      // server: storing a message; its delivery to a worker costs the same
	Copy     linear  `json:"copy"`       // server: a replicated message, on each of three servers
	Compute  float64 `json:"compute_s"`  // worker: a message
	Call     float64 `json:"call_s"`     // worker: a batch
	Commit   float64 `json:"commit_s"`   // worker: a commit, without the storing of its message
	Snapshot float64 `json:"snapshot_s"` // worker: a byte of a snapshot
}

// linear is the cost of a message as a linear function of its size.
type linear struct {
	Message float64 `json:"message_s"` // per message
	Byte    float64 `json:"byte_s"`    // per byte
}

// cost returns the cost in seconds of a message of size bytes.
func (l linear) cost(size float64) float64 { return l.Message + l.Byte*size }

// Memory of an idle process as in docs/capacity.md; of a stream as in
// docs/results.md ("Memory of many streams"): 107 kB with states of 48.8 kB, 44
// kB with 17.9 kB, including snapshots.
const (
	memoryIdle   = 140e6
	memoryStream = 3e3
	memoryStates = 2.2 // times the state
)

// recovery is the time in seconds from the restart after a kill until a worker starts to
// replay: the server reads its store, and the lease of the previous worker expires. Measured:
// docs/capacity.md.
const recovery = 3

const day = 24 * time.Hour

// estimate is the requirements of the plant.
type estimate struct {
	Cores      float64 `json:"cores"`        // busy cores of this machine's kind
	Memory     float64 `json:"memory_bytes"` // resident memory of all servers
	NetworkIn  float64 `json:"network_in_bytes_per_s"`
	NetworkOut float64 `json:"network_out_bytes_per_s"`
	DiskDay    float64 `json:"disk_bytes_per_day"` // input and predictions, with all replicas
	DiskRate   float64 `json:"disk_bytes_per_s"`
	Stop       float64 `json:"restart_s"`            // after a clean stop
	Kill       float64 `json:"restart_after_kill_s"` // until the messages of the interruption are answered
	Servers    int     `json:"servers"`
	First      string  `json:"first_limit"` // the resource that determines the number of servers
	Needs      []need  `json:"needs"`
	Jobs       int     `json:"jobs"`       // number of jobs for the machines
	Partitions int     `json:"partitions"` // per job
	Consumers  int     `json:"consumers"`  // maximum per job's input
}

// need is the number of servers for one resource.
type need struct {
	What    string  `json:"what"`
	Servers float64 `json:"servers"`
}

// computeEstimate computes the requirements of a plant. The argument replicas is the number of
// servers per message (1 or 3), every is the stage's interval of snapshots.
func computeEstimate(p plant, s server, m measured, replicas int, every time.Duration, maxPartitions int) estimate {
	rate := p.messages()
	states := float64(p.Machines) * float64(m.States) * m.StateBytes
	var e estimate
	busy := rate * m.Message
	if replicas > 1 {
		busy += rate * m.Costs.Copy.cost(m.Payload) * float64(replicas)
	}
	busy += states / every.Seconds() * m.Costs.Snapshot // each snapshot has at most all states
	e.Memory = float64(p.Machines)*memoryStream + memoryStates*states
	// Input arrives once and is sent to the other replicas; predictions are stored the same
	// way.
	stored := (m.In + m.Out) * rate * float64(replicas)
	e.NetworkIn = rate * m.Payload * float64(replicas)
	e.NetworkOut = rate * (m.Out + m.Payload*float64(replicas-1))
	write := 1.
	if replicas > 1 {
		write = m.Write
	}
	e.DiskRate = write * (stored + states/every.Seconds()*float64(replicas))
	e.DiskDay = stored * day.Seconds()

	room := func(resource string, needed, available float64) {
		e.Needs = append(e.Needs, need{resource, needed / available})
	}
	room("cores", busy, float64(s.Cores)*s.Use)
	room("memory", e.Memory, s.Memory*.8-memoryIdle)
	room("network", max(e.NetworkIn, e.NetworkOut), s.Network*s.Use)
	room("disk", e.DiskRate, s.Disk*s.Use)
	maximum := e.Needs[0]
	for _, n := range e.Needs[1:] {
		if n.Servers > maximum.Servers {
			maximum = n
		}
	}
	e.First = maximum.What
	e.Servers = max(int(math.Ceil(maximum.Servers)), replicas)
	n := float64(e.Servers)
	e.Cores = busy + n*m.Idle
	e.Memory += memoryIdle * n
	// A restart reads the snapshot and replays the later messages at the speed of all cores:
	// after a kill, on average half of the interval between two snapshots.
	share := rate * m.Burst / n / float64(s.Cores)
	e.Stop = states / n / m.Restore
	if share < 1 {
		e.Kill = recovery + e.Stop + every.Seconds()/2*share/(1-share)
	} else {
		e.Kill = math.Inf(1)
	}
	// A job's input is one NATS stream. Its leader is one server, which writes each message and
	// sends it to the other replicas, in one goroutine for all messages of the NATS stream.
	work := m.Costs.Store.cost(m.Payload)
	if replicas > 1 {
		work += m.Costs.Copy.cost(m.Payload)
	}
	leader := max(write*rate*(m.In+m.Out)/(s.Disk*s.Use), rate*m.Payload*float64(max(1, replicas-1))/(s.Network*s.Use), rate*work/s.Use)
	e.Jobs = max(1, int(math.Ceil(leader)))
	e.Partitions = choosePartitions((e.Servers*s.Cores+e.Jobs-1)/e.Jobs, maxPartitions)
	e.Consumers = store.ConsumersFor(e.Partitions)
	return e
}

// choosePartitions returns two partitions per core, for an even distribution, as a power of
// two, and at least the number of a new job.
func choosePartitions(cores, maximum int) int {
	n := 16
	for n < 2*cores && 2*n <= maximum {
		n *= 2
	}
	return n
}

// statesOf returns the state bytes and the number of states of a stream.
func statesOf(m *reservoir.Model) (bytes float64, states int) {
	return float64(4 * engine.LayoutOf(m.Network.Spec).Words), m.Policy.States()
}
