package plan

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// plant is what is to be watched.
type plant struct {
	Machines int     `json:"machines"`
	Rate     float64 `json:"samples_per_s"`       // of one machine
	Message  int     `json:"samples_per_message"` // of one machine
	Channels int     `json:"channels"`
}

// messages a second, of all machines.
func (p plant) messages() float64 { return float64(p.Machines) * p.Rate / float64(p.Message) }

// server is what one of them has, and how much of it the plan may use.
type server struct {
	Cores   int     `json:"cores"`
	Memory  float64 `json:"memory_bytes"`
	Network float64 `json:"network_bytes_per_s"` // each way
	Disk    float64 `json:"disk_bytes_per_s"`    // written
	Use     float64 `json:"use"`                 // share of cores, network and disk
}

// measured is what a stage with its server costs on this machine.
type measured struct {
	Cores      int     `json:"cores"`                      // of this machine
	Rate       float64 `json:"messages_per_s"`             // at which the next was measured
	Idle       float64 `json:"idle_cores"`                 // without any message
	Message    float64 `json:"cpu_s_per_message"`          // CPU time more, reading, engine, commit and server included
	Burst      float64 `json:"cpu_s_per_message_together"` // the same where many come at once, as after a restart
	In         float64 `json:"in_bytes_per_message"`       // stored
	Out        float64 `json:"out_bytes_per_message"`
	Payload    float64 `json:"payload_bytes"`       // of a message, as it is sent
	Late       bool    `json:"late"`                // this machine did not keep to the rate: the cost is too low
	Restore    float64 `json:"restore_bytes_per_s"` // of states, from a snapshot
	StateBytes float64 `json:"state_bytes"`         // of one open sequence
	States     int     `json:"states_per_machine"`
	Write      float64 `json:"written_per_stored"` // bytes, where three servers store

	Costs serviceTimes `json:"service_times"`
}

// serviceTimes is the CPU time of each part of a message's way, in seconds.
type serviceTimes struct {
	Store    linear  `json:"store"`      // server: stores a message; its delivery to a worker costs as much
	Copy     linear  `json:"copy"`       // server: a replicated message, on each of three servers
	Compute  float64 `json:"compute_s"`  // worker: a message
	Call     float64 `json:"call_s"`     // worker: a batch
	Commit   float64 `json:"commit_s"`   // worker: a commit, beyond the message that it stores
	Snapshot float64 `json:"snapshot_s"` // worker: a byte of a snapshot
}

// linear is the cost of a message by its size.
type linear struct {
	Message float64 `json:"message_s"` // of any message
	Byte    float64 `json:"byte_s"`    // of each byte
}

// cost returns the cost in seconds of a message of size bytes.
func (l linear) cost(size float64) float64 { return l.Message + l.Byte*size }

// Memory of a process: of an idle one as in docs/capacity.md; of a stream as in
// docs/measurements/machines.md ("Memory of many streams"): 107 kB with states of 48.8
// kB, 44 kB with 17.9 kB, snapshots included.
const (
	memoryIdle   = 140e6
	memoryStream = 3e3
	memoryStates = 2.2 // times the state
)

// recovery is the time in seconds from the start after a kill until a worker begins to
// replay: the server reads its store, and the lease of the one before is over. Measured:
// docs/capacity.md.
const recovery = 3

const day = 24 * time.Hour

// estimate is what the plant needs.
type estimate struct {
	Cores      float64 `json:"cores"`        // busy, of this machine's kind
	Memory     float64 `json:"memory_bytes"` // resident, all servers
	NetworkIn  float64 `json:"network_in_bytes_per_s"`
	NetworkOut float64 `json:"network_out_bytes_per_s"`
	DiskDay    float64 `json:"disk_bytes_per_day"` // input and predictions, all replicas
	DiskRate   float64 `json:"disk_bytes_per_s"`
	Stop       float64 `json:"restart_s"`            // after an orderly end
	Kill       float64 `json:"restart_after_kill_s"` // until what came meanwhile is answered
	Servers    int     `json:"servers"`
	First      string  `json:"first_limit"` // what decides their number
	Needs      []need  `json:"needs"`
	Jobs       int     `json:"jobs"`       // among which the machines are divided
	Partitions int     `json:"partitions"` // of each job
	Consumers  int     `json:"consumers"`  // of each job's input, at most
}

// need is how many servers one resource asks for.
type need struct {
	What    string  `json:"what"`
	Servers float64 `json:"servers"`
}

// compute says what a plant needs. replicas is how many servers keep each message (1 or
// 3), every the stage's time between snapshots.
func compute(p plant, s server, m measured, replicas int, every time.Duration, maxPartitions int) estimate {
	rate := p.messages()
	states := float64(p.Machines) * float64(m.States) * m.StateBytes
	var e estimate
	busy := rate * m.Message
	if replicas > 1 {
		busy += rate * m.Costs.Copy.cost(m.Payload) * float64(replicas)
	}
	busy += states / every.Seconds() * m.Costs.Snapshot // each snapshot has at most all states
	e.Memory = float64(p.Machines)*memoryStream + memoryStates*states
	// Input comes once, and goes to the other replicas; predictions are stored likewise.
	stored := (m.In + m.Out) * rate * float64(replicas)
	e.NetworkIn = rate * m.Payload * float64(replicas)
	e.NetworkOut = rate * (m.Out + m.Payload*float64(replicas-1))
	write := 1.
	if replicas > 1 {
		write = m.Write
	}
	e.DiskRate = write * (stored + states/every.Seconds()*float64(replicas))
	e.DiskDay = stored * day.Seconds()

	room := func(what string, needed, has float64) {
		e.Needs = append(e.Needs, need{what, needed / has})
	}
	room("cores", busy, float64(s.Cores)*s.Use)
	room("memory", e.Memory, s.Memory*.8-memoryIdle)
	room("network", max(e.NetworkIn, e.NetworkOut), s.Network*s.Use)
	room("disk", e.DiskRate, s.Disk*s.Use)
	most := e.Needs[0]
	for _, n := range e.Needs[1:] {
		if n.Servers > most.Servers {
			most = n
		}
	}
	e.First = most.What
	e.Servers = max(int(math.Ceil(most.Servers)), replicas)
	n := float64(e.Servers)
	e.Cores = busy + n*m.Idle
	e.Memory += memoryIdle * n
	// A restart reads the snapshot, and replays what came since it at the speed of all
	// cores: after a kill half of the distance of two snapshots, in the mean.
	share := rate * m.Burst / n / float64(s.Cores)
	e.Stop = states / n / m.Restore
	if share < 1 {
		e.Kill = recovery + e.Stop + every.Seconds()/2*share/(1-share)
	} else {
		e.Kill = math.Inf(1)
	}
	// A job's input is one NATS stream. Its leader is one server, which writes each message
	// and sends it to the other replicas.
	// One goroutine there does so for all messages of the NATS stream.
	work := m.Costs.Store.cost(m.Payload)
	if replicas > 1 {
		work += m.Costs.Copy.cost(m.Payload)
	}
	leader := max(write*rate*(m.In+m.Out)/(s.Disk*s.Use), rate*m.Payload*float64(max(1, replicas-1))/(s.Network*s.Use), rate*work/s.Use)
	e.Jobs = max(1, int(math.Ceil(leader)))
	e.Partitions = partitions((e.Servers*s.Cores+e.Jobs-1)/e.Jobs, maxPartitions)
	e.Consumers = pipeline.ConsumersFor(e.Partitions)
	return e
}

// partitions of a job is two for each core, so that they can be shared out evenly, as a power of
// two, and at least those of a new job.
func partitions(cores, most int) int {
	n := 16
	for n < 2*cores && 2*n <= most {
		n *= 2
	}
	return n
}

// statesOf is the memory of a stream: bytes of a state, and how many it has.
func statesOf(m *reservoir.Model) (bytes float64, states int) {
	return float64(4 * m.Network.Spec.Layout().Words), m.Policy.States()
}
