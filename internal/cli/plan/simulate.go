package plan

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/simulate"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// What a simulation has. A run of more messages would take longer than one waits for.
const (
	simMessages = 1_000_000
	simLongest  = 40 * time.Second
	simLeast    = 8 * time.Second
	simWarm     = 2 * time.Second
	restartUnit = 5 * time.Second // RestartSec of configs/systemd
)

// Not measured here, and not by this program: docs/capacity.md says where they are from.
const (
	hop      = 200 * time.Microsecond // between two servers of one site
	election = 5 * time.Second        // nats-server: 4 to 9 s without a word of the leader
	ready    = 200 * time.Millisecond // start of the process; that of the stage is in the measured restore
	cache    = 4e9                    // bytes that a server keeps unwritten at most
)

// growth is the sizes, beside the plan's, at which the plant is simulated.
var growth = []float64{.25, .5, 1, 1.25, 1.5, 2, 3, 4}

// simulated is what the simulation says.
type simulated struct {
	Cell   simulate.Cell      `json:"cell"` // the others are alike
	Cells  int                `json:"cells"`
	Normal *simulate.Result   `json:"normal"`
	Ways   []*simulate.Result `json:"arrivals"` // the same load, as each of Arrivals
	Faults []*simulate.Result `json:"faults"`
	Growth []grown            `json:"growth"`
}

// grown is the same servers with more streams.
type grown struct {
	Times  float64          `json:"times"`
	Result *simulate.Result `json:"result"`
}

// cellsOf is into how many parts that share nothing the plan can be cut: a job each, or
// several where a job's share of the servers is less than one that can store its messages.
func cellsOf(o options, e estimate) int { return max(1, min(e.Jobs, e.Servers/o.replicas)) }

// cell is one of these parts.
func cell(o options, r measured, e estimate) simulate.Cell {
	cells := cellsOf(o, e)
	return simulate.Cell{
		Job: simulate.Job{
			Streams: (o.Machines + cells - 1) / cells, Every: time.Duration(float64(o.Message) / o.Rate * float64(time.Second)), Arrival: simulate.Arrival(o.arrival),
			Payload: r.Payload, In: r.In, Out: r.Out, State: r.StateBytes * float64(r.States), Partitions: e.Partitions, Replicas: o.replicas,
			Latency: o.latency, Most: max(1, pipeline.DefaultRowBudget/o.Message), SnapshotEvery: pipeline.DefaultSnapshotEvery, SnapshotMessages: pipeline.DefaultSnapshotMessages, Lease: pipeline.DefaultLease,
		},
		Costs:   r.Costs,
		Machine: simulate.Machine{Cores: o.Cores, Network: o.Network, Disk: o.Disk, Cache: min(cache, .2*o.Memory)},
		Cluster: simulate.Cluster{Servers: max(o.replicas, (e.Servers+cells-1)/cells), Jobs: (e.Jobs + cells - 1) / cells, Hop: hop, Election: election, Ready: ready},
		Warm:    simWarm, Time: simLongest, Seed: o.seed,
	}
}

// lasting gives a cell the time that its messages allow.
func lasting(c simulate.Cell, messages float64) simulate.Cell {
	rate := float64(c.Job.Streams) / c.Job.Every.Seconds()
	c.Time = max(simLeast, min(simLongest, time.Duration(messages/rate*float64(time.Second))))
	return c
}

// runCells simulates the plan: as it is, with each way of arrival, with faults, and with
// more and fewer streams on the same servers.
func runCells(o options, r measured, e estimate) (s *simulated, err error) {
	s = &simulated{Cell: lasting(cell(o, r, e), simMessages), Cells: cellsOf(o, e)}
	var wg sync.WaitGroup
	var mu sync.Mutex
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	run := func(c simulate.Cell, to **simulate.Result) {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			got, failed := simulate.Run(c)
			mu.Lock()
			defer mu.Unlock()
			if *to = got; failed != nil && err == nil {
				err = failed
			}
		})
	}
	run(s.Cell, &s.Normal)
	s.Ways = make([]*simulate.Result, len(simulate.Arrivals))
	for i, a := range simulate.Arrivals {
		c := s.Cell
		c.Job.Arrival = a
		run(c, &s.Ways[i])
	}
	at := 5 * time.Second
	faults := []simulate.Fault{{Kind: simulate.KillWorker, At: at, For: restartUnit, Server: s.Cell.Cluster.Servers - 1}, {Kind: simulate.Uplink, At: at, For: 10 * time.Second}}
	if o.replicas > 1 {
		faults = append(faults, simulate.Fault{Kind: simulate.KillServer, At: at})
	}
	s.Faults = make([]*simulate.Result, len(faults))
	for i, f := range faults {
		c := s.Cell
		c.Time, c.Faults = simLongest, []simulate.Fault{f}
		run(c, &s.Faults[i])
	}
	s.Growth = make([]grown, len(growth))
	for i, times := range growth {
		c := s.Cell
		c.Job.Streams = max(1, int(times*float64(c.Job.Streams)))
		s.Growth[i].Times = times
		run(lasting(c, simMessages/2), &s.Growth[i].Result)
	}
	wg.Wait()
	return s, err
}

var faultNames = map[simulate.FaultKind]string{simulate.KillWorker: "a worker is killed", simulate.KillServer: "a server dies", simulate.Uplink: "no uplink"}

func printCells(row func(name, format string, args ...any), s *simulated) {
	c := s.Cell
	row("simulated", "one of %d cells: %d servers with %d jobs of %d partitions each, %d streams, %.4g messages a second", s.Cells, c.Cluster.Servers, c.Cluster.Jobs, c.Job.Partitions, c.Job.Streams, s.Normal.Rate)
	row("", "%.3g cores busy, %.3g messages a batch, %.3g commits a message", s.Normal.Cores, s.Normal.Batch, s.Normal.Commits)
	for _, u := range s.Normal.Use {
		row("", "%-18s %3.0f %% of its time (server %d)", u.What, 100*u.Share, u.Where)
	}
	for i, a := range simulate.Arrivals {
		r := s.Ways[i]
		row(fmt.Sprintf("arrivals %s", a), "p50 %.3g ms, p99 %.3g ms, at most %.3g ms until the prediction is stored", r.P50, r.P99, r.Max)
	}
	for _, r := range s.Faults {
		f := r.Faults[0]
		caught := "not caught up in the simulated time"
		if f.CaughtUp >= 0 {
			caught = fmt.Sprintf("caught up %.3g s after its beginning", f.CaughtUp)
		}
		row(faultNames[f.Fault.Kind], "%d messages wait at most (%.3g s of them), %s", f.Peak, float64(f.Peak)/r.Rate, caught)
	}
	for _, g := range s.Growth {
		text := fmt.Sprintf("p99 %.3g ms, busiest: %s %.0f %%", g.Result.P99, g.Result.Use[0].What, 100*g.Result.Use[0].Share)
		if u, broken := g.Result.Broken(); broken {
			text = fmt.Sprintf("breaks: %s", u.What)
		}
		row(fmt.Sprintf("%g times as many", g.Times), "%s", text)
	}
}
