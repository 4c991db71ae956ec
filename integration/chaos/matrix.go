//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// scenario describes a run; the seed decides times and victims.
type scenario struct {
	Name       string
	Nodes      int   // NATS servers: 1 or 3
	Workers    []int // number of workers, in phases of equal length
	Partitions int
	Policy     string // key of policies
	Traffic    traffic
	Reorder    int // messages per key that the stage may hold back
	Load       time.Duration
	Slots      int           // state rows of a shard; 0 = the default, room for all
	Snapshots  int           // messages between two snapshots; 0 = the default of the harness
	Idle       time.Duration // silence that ends a sequence; 0 = never
	Unsafe     string        // safeguard disabled in the workers; a negative control
	Control    string        // or another missing part, with unchanged workers

	Kills, Zombies, Splits, OneWay, Cuts, Slow, Restarts, ServerKills int

	Fills      int           // full disks, in simulations
	Jumps      int           // of wall clocks, in simulations
	Harms      []harm        // damage to the servers' stores
	May        may           // allowed results besides correct predictions
	Loses      bool          // the servers may lose acknowledged data
	Classes    int           // of the readout; 0 = 3
	MaxMessage int           // bytes, of the input; 0 = the default
	MaxPayload int           // bytes, of the servers; 0 = a stock server's
	Embedded   bool          // the server is embedded in the worker
	Disks      bool          // each server's store is on a separate disk, which can lose its power
	SyncAlways bool          // servers fsync before each acknowledgement
	Lag        time.Duration // added to all data between workers and servers, each way
	Backfill   bool          // at the end the whole log is predicted into a file
	Handed     int           // commits of several parts that a new worker must take over in the middle
}

// control returns the missing part of a negative control, empty for other runs.
func (s *scenario) control() string { return cmp.Or(s.Unsafe, s.Control) }

// mayLoseOutput reports whether the output may lack messages, or be missing.
func (s *scenario) mayLoseOutput() bool { return s.May.isLenient() || s.control() != "" }

// expects describes the allowed results of a run.
func (s *scenario) expects() string {
	if s.control() != "" {
		return "a control: " + s.control() + " is found"
	}
	return s.May.String()
}

// serverArgs returns the additional arguments of the servers.
func (s *scenario) serverArgs() (args []string) {
	if s.MaxPayload > 0 {
		args = append(args, "--max-payload", strconv.Itoa(s.MaxPayload))
	}
	if s.SyncAlways {
		args = append(args, "--sync-always")
	}
	return args
}

// config returns the workers' configuration file: small batches and frequent snapshots,
// so that faults interrupt the stage's work.
func (s *scenario) config() string {
	reorder := s.Reorder
	if reorder == 0 {
		reorder = -1 // none; 0 would be wrong here
	}
	return fmt.Sprintf(`nats:
  replicas: %d
input:
  reorder: %d
  max_message: %d
stage:
  shards: 2
  rows: 512
  snapshot_messages: %d
  snapshot_every: 4s
  lease: %s
  idle: %s
`, s.Nodes, reorder, cmp.Or(s.MaxMessage, stockMessage), cmp.Or(s.Snapshots, snapshotMessages), lease, s.Idle) + s.slots()
}

func (s *scenario) slots() string {
	if s.Slots == 0 {
		return ""
	}
	return fmt.Sprintf("  max_slots: %d\n", s.Slots)
}

const (
	stockMessage     = 1032192
	snapshotMessages = 120
	lease            = 3 * time.Second // zombies and partitions last longer
)

// stageReorder is the default number of messages per key that the stage holds back.
const stageReorder = 16

// usual is the traffic of most runs: about 12,000 predictions.
var usual = traffic{Keys: 40, Messages: 260, Gateways: 5, Repeat: 0.05, Late: 0.02, LateBy: 3, Missing: 0.001, Damaged: 0.002}

// sparse is the traffic of many streams with silences longer than the idle time of their
// runs, which is longer than the stage's precision of one second.
var sparse = traffic{Keys: 300, Messages: 10, Gateways: 5, Repeat: 0.05, Late: 0.05, LateBy: 2, Missing: 0.01, Damaged: 0.005}

const sparseIdle = 1500 * time.Millisecond

// steady is the traffic of runs with data loss in the servers. All messages of each key
// are sent, in order, so the fault explains every missing message.
var steady = traffic{Keys: 40, Messages: 160, Gateways: 5, Repeat: 0.02}

// broad is traffic whose messages yield more predictions than a message of a server with
// a small payload limit can hold.
var broad = traffic{Keys: 8, Messages: 40, Gateways: 5, Repeat: 0.05, Rows: 200}

// base returns the scenario that other scenarios modify.
func base(name string) *scenario {
	return &scenario{Name: name, Nodes: 1, Workers: []int{1}, Partitions: 8, Policy: "marked", Traffic: usual, Reorder: stageReorder, Load: 20 * time.Second}
}

// with modifies a scenario.
func (s *scenario) with(f func(*scenario)) *scenario {
	f(s)
	return s
}

// harmed is a run with damage to the servers' stores.
func harmed(name string, m may, harms ...harm) *scenario {
	return base(name).with(func(s *scenario) {
		s.Traffic, s.Load, s.Workers, s.May, s.Harms = steady, 12*time.Second, []int{2}, m, harms
		s.Loses = m.Flag
	})
}

var (
	orStopped        = may{Stop: true}
	flaggedOrStopped = may{Flag: true, Stop: true}
)

// disabling returns a scenario's negative control: a safeguard is disabled.
func (s *scenario) disabling(name, mode string) *scenario {
	c := *s
	c.Name, c.Unsafe = name, mode
	return &c
}

// catalog returns all scenarios.
func catalog() []*scenario {
	return slices.Concat(workerFaults(), producerFaults(), storeFaults(), powerFaults(), jobFaults())
}

// producerFaults are runs with other producers and other messages.
func producerFaults() []*scenario {
	unnumbered := func(s *scenario) { s.Traffic.Unnumbered, s.Traffic.Missing = true, 0 }
	split := func(s *scenario) {
		const largest = 16 << 10 // bytes of an input message
		s.Policy, s.Traffic, s.Classes, s.MaxMessage, s.MaxPayload = "each", broad, 100, largest, largest+16<<10
		s.Kills, s.Lag, s.Handed, s.Load = 10, 20*time.Millisecond, 1, 45*time.Second // a start takes 3 s with this lag
	}
	other := func(network, seed uint64) func() (*reservoir.Model, error) {
		return func() (*reservoir.Model, error) { return drawModel("marked", network, seed, 3) }
	}
	rivals := base("rivals").with(func(s *scenario) {
		s.Kills, s.Load = 2, 15*time.Second
		s.Harms = []harm{rivalHarm(0, other(4, 5)), followerHarm(0.4, other(3, 6)), rivalHarm(0.7, other(4, 5))}
	})
	return []*scenario{
		base("unnumbered").with(unnumbered).with(func(s *scenario) { s.Kills, s.Zombies = 6, 1 }),
		base("unnumbered-servers").with(unnumbered).with(func(s *scenario) { s.Kills, s.ServerKills = 3, 4 }),
		base("unnumbered-no-fence").with(unnumbered).with(func(s *scenario) { s.Unsafe, s.Zombies = "nofence", 2 }),
		base("deaths").with(func(s *scenario) { s.Traffic.Deaths, s.Traffic.Reuse, s.Kills, s.ServerKills = 0.1, 0.5, 4, 2 }),
		base("deaths-no-dedup").with(func(s *scenario) {
			s.Traffic.Deaths, s.Traffic.Reuse, s.Traffic.Repeat, s.Load, s.Unsafe = 0.1, 0.5, 0, 5*time.Second, "nodedup"
		}),
		base("split-commits").with(split),
		base("split-no-ahead").with(split).with(func(s *scenario) { s.Unsafe = "noahead" }),
		rivals,
		rivals.disabling("rivals-any-model", "anymodel"),
	}
}

// storeFaults are runs whose servers lose or change stored data.
func storeFaults() []*scenario {
	rewound := func(name string, m may, w rewinding) *scenario {
		w.keep, w.back = 0.25, 0.6
		return harmed(name, m, rewindStore(w)...).with(func(s *scenario) { s.Kills = 1 })
	}
	trim := func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 100 }
	few := func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }
	five := func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 }
	rows := func(s *scenario) { s.Slots = 12 }
	input := rewound("rewind-input", flaggedOrStopped, rewinding{streams: []string{inputStream}})
	restart := rewound("rewind-input-restart", flaggedOrStopped, rewinding{streams: []string{inputStream}, restart: true})
	nameless := func(s *scenario) { s.Traffic.Unnumbered, s.Traffic.Repeat = true, 0 }
	answered := harmed("delete-answered", flaggedOrStopped, deleteAnswered(0.5)).with(nameless)
	flipped := harmed("flip-unnumbered", flaggedOrStopped, flipStore(0.5, inputStream)).with(nameless)
	sums := []harm{loseSum(0.3, inputStream), loseSum(0.5, outputStream), loseSum(0.7, snapStream)}
	embedded := func(s *scenario) { s.Embedded, s.Workers = true, []int{0} }
	return []*scenario{
		input,
		input.disabling("rewind-no-reset", "noreset"),
		restart,
		restart.disabling("rewind-no-input", "noinput"),
		rewound("rewind-input-resend", flaggedOrStopped, rewinding{streams: []string{inputStream}, resend: true}),
		rewound("rewind-output", orStopped, rewinding{streams: []string{outputStream}}),
		rewound("rewind-output-restart", orStopped, rewinding{streams: []string{outputStream}, restart: true}),
		rewound("rewind-all", flaggedOrStopped, rewinding{}),
		rewound("rewind-all-resend", flaggedOrStopped, rewinding{resend: true}),
		rewound("rewind-all-restart", flaggedOrStopped, rewinding{resend: true, restart: true}),
		rewound("rewind-states", orStopped, rewinding{streams: []string{snapStream, rowStream}, restart: true}).with(rows),

		harmed("purge-unread", flaggedOrStopped, purgeUnread(0.4)),
		harmed("purge-unread-unnumbered", flaggedOrStopped, purgeUnread(0.4)).with(nameless),
		harmed("delete-unread", flaggedOrStopped, deleteUnread(0.4)),
		answered,
		answered.disabling("delete-no-digest", "nodigest"),
		harmed("limit-input", flaggedOrStopped, limitStream(0.4, inputStream, true, trim)).with(func(s *scenario) { s.Kills = 1 }),
		harmed("limit-output", may{Stop: true, Shown: true}, limitStream(0.4, outputStream, true, few)).with(func(s *scenario) { s.Kills = 1 }),
		harmed("limit-output-all", may{Stop: true, Shown: true}, limitStream(0.4, outputStream, false, five)),
		harmed("purge-output", orStopped, purgeStream(0.4, outputStream)),
		harmed("purge-states", orStopped, purgeStream(0.3, snapStream), purgeStream(0.4, memberStream), purgeStream(0.6, deadStream)).with(func(s *scenario) { s.Kills = 2 }),

		harmed("flip-input", flaggedOrStopped, flipStore(0.5, inputStream)),
		flipped,
		flipped.disabling("flip-no-input", "noinput"),
		harmed("flip-output", may{Flag: true, Stop: true, Shown: true}, flipStore(0.5, outputStream)),
		harmed("flip-states", orStopped, flipStore(0.3, memberStream), flipStore(0.6, snapStream)).with(func(s *scenario) { s.Kills = 2 }),
		harmed("flip-rows", orStopped, flipStore(0.5, rowStream)).with(rows),
		harmed("sum-input", orStopped, loseSum(0.5, inputStream)),
		harmed("sum-output", orStopped, loseSum(0.5, outputStream)),
		harmed("sum-embedded", may{}, sums...).with(embedded),
		harmed("sum-stock", may{}, sums[1:]...).with(func(s *scenario) { s.Control = "norepair" }),
		harmed("sum-states", orStopped, loseSum(0.5, snapStream), loseSum(0.7, rowStream)).with(rows),
	}
}

// powerFaults are runs whose servers lose their power. With one server the job starts
// without any synced data. In a cluster, servers disagree about unsynced data, so the job
// was synced before.
func powerFaults() []*scenario {
	power := func(name string, nodes int, always bool) *scenario {
		m, syncs := flaggedOrStopped, syncStreams(0.2, 0.6)
		if nodes > 1 {
			syncs = syncNodes(0.05, 0.6, 3)
		}
		if always {
			m, syncs = may{}, nil
		}
		return harmed(name, m, append(syncs, powerLoss(0.75, 1500*time.Millisecond))...).with(func(s *scenario) {
			s.Nodes, s.Disks, s.SyncAlways, s.Load = nodes, true, always, 20*time.Second
		})
	}
	careless := power("power-no-input", 1, false).with(func(s *scenario) { s.Unsafe = "noinput" })
	return []*scenario{
		power("power", 1, false), power("power-always", 1, true), power("power-three", 3, false), power("power-three-always", 3, true), careless,
	}
}

// workerFaults are runs with faults of workers, servers and links.
func workerFaults() []*scenario {
	scale := []int{1, 3, 2}
	promoted := base("promotions").with(func(s *scenario) {
		s.Policy, s.Workers, s.Harms = "early", scale, promotionHarms(12)
		s.Kills, s.Zombies, s.Restarts, s.ServerKills = 6, 1, 2, 2
	})
	return []*scenario{
		base("calm").with(func(s *scenario) { s.Load = 5 * time.Second }),

		base("worker-kills").with(func(s *scenario) { s.Kills = 8 }),
		base("worker-kills-window").with(func(s *scenario) { s.Kills, s.Policy = 8, "window" }),
		base("worker-kills-count").with(func(s *scenario) { s.Kills, s.Policy = 8, "count" }),
		base("worker-kills-early").with(func(s *scenario) { s.Kills, s.Policy, s.Partitions = 8, "early", 32 }),
		base("embedded-kills").with(func(s *scenario) { s.Embedded, s.Workers, s.ServerKills = true, []int{0}, 5 }),
		base("server-kills").with(func(s *scenario) { s.ServerKills, s.Kills = 5, 3 }),
		base("links").with(func(s *scenario) { s.Cuts, s.Slow, s.Restarts = 4, 3, 3 }),
		base("zombies").with(func(s *scenario) { s.Zombies, s.Kills = 3, 2 }),
		base("one-way").with(func(s *scenario) { s.OneWay, s.Kills = 3, 2 }),
		base("one-way-no-fence").with(func(s *scenario) { s.OneWay, s.Unsafe = 3, "nofence" }),
		base("splits").with(func(s *scenario) { s.Splits, s.Kills = 2, 2 }),
		base("disorder").with(func(s *scenario) {
			s.Kills, s.Zombies = 5, 2
			s.Traffic.Late, s.Traffic.LateBy, s.Traffic.Repeat, s.Reorder = 0.08, 12, 0.15, 4
		}),

		base("idle-spill").with(func(s *scenario) {
			s.Traffic, s.Idle, s.Slots, s.Load = sparse, sparseIdle, 12, 30*time.Second
			s.Kills, s.Zombies = 5, 1
		}),
		base("idle-spill-scale").with(func(s *scenario) {
			s.Traffic, s.Idle, s.Slots, s.Load, s.Workers = sparse, sparseIdle, 12, 30*time.Second, scale
			s.Kills, s.Zombies, s.Splits, s.Cuts, s.ServerKills = 4, 1, 1, 1, 2
		}),
		base("spill-window").with(func(s *scenario) { s.Policy, s.Slots, s.Kills, s.Restarts = "window", 30, 6, 2 }),

		base("scale").with(func(s *scenario) { s.Workers, s.Kills, s.Restarts = scale, 5, 2 }),
		base("scale-mixed").with(func(s *scenario) {
			s.Workers, s.Policy, s.Partitions = scale, "window", 16
			s.Kills, s.Zombies, s.Splits, s.Cuts, s.Slow, s.Restarts, s.ServerKills = 5, 2, 1, 1, 1, 1, 2
		}),
		base("three-zombies").with(func(s *scenario) { s.Workers, s.Kills, s.Zombies, s.Splits = []int{3}, 4, 3, 1 }),

		base("cluster-kills").with(func(s *scenario) { s.Nodes, s.Kills, s.ServerKills = 3, 5, 3 }),
		base("cluster-scale").with(func(s *scenario) {
			s.Nodes, s.Workers, s.Load = 3, scale, 25*time.Second
			s.Kills, s.Zombies, s.Splits, s.ServerKills = 5, 2, 1, 3
		}),
		base("cluster-window").with(func(s *scenario) {
			s.Nodes, s.Workers, s.Load, s.Policy = 3, []int{2}, 25*time.Second, "window"
			s.Kills, s.Zombies, s.Splits, s.Cuts, s.ServerKills = 4, 1, 1, 2, 3
		}),

		promoted,
		promoted.disabling("promotions-forgotten", "noreadouts"),
		base("promotions-window").with(func(s *scenario) {
			s.Policy, s.Slots, s.Kills, s.Zombies, s.Harms = "window", 30, 6, 1, promotionHarms(12)
		}),
		base("promotions-cluster").with(func(s *scenario) {
			s.Nodes, s.Workers, s.Load, s.Policy, s.Harms = 3, scale, 25*time.Second, "count", promotionHarms(10)
			s.Kills, s.Zombies, s.ServerKills = 4, 1, 3
		}),

		base("no-fence").with(func(s *scenario) { s.Unsafe, s.Zombies, s.Splits = "nofence", 2, 1 }),
		base("no-dedup").with(func(s *scenario) { s.Unsafe, s.Load = "nodedup", 5*time.Second }),
		base("msg-id-only").with(func(s *scenario) { s.Unsafe, s.Zombies, s.Splits, s.Kills = "msgid", 2, 1, 2 }),
	}
}

// entry is a scenario and its number of runs.
type entry struct {
	name  string
	times int
}

// matrices are the sets of runs for --matrix. The long matrix is the project's claim: at
// least 40 runs, 400,000 predictions, 200 worker kills, 60 zombies, 60 server kills and
// 30 network partitions, every damage to the stores, and every negative control.
var matrices = map[string][]entry{
	"short": {{"cluster-scale", 1}}, // the histories of tools/simulate have one server, all other faults, and the controls
	"long": {
		{"calm", 1},
		{"worker-kills", 2}, {"worker-kills-window", 2}, {"worker-kills-count", 2}, {"worker-kills-early", 2},
		{"idle-spill", 2}, {"idle-spill-scale", 3}, {"spill-window", 2},
		{"server-kills", 3}, {"embedded-kills", 1}, {"links", 2}, {"one-way", 2}, {"zombies", 5}, {"splits", 6}, {"disorder", 3},
		{"scale", 3}, {"scale-mixed", 6}, {"three-zombies", 6},
		{"cluster-kills", 4}, {"cluster-scale", 6}, {"cluster-window", 4},
		{"unnumbered", 1}, {"unnumbered-servers", 1}, {"deaths", 1}, {"split-commits", 1}, {"rivals", 1}, {"promotions", 2}, {"promotions-window", 1}, {"promotions-cluster", 1},
		{"rewind-input", 1}, {"rewind-input-restart", 1}, {"rewind-input-resend", 1}, {"rewind-output", 1}, {"rewind-output-restart", 1},
		{"rewind-all", 1}, {"rewind-all-resend", 1}, {"rewind-all-restart", 1}, {"rewind-states", 1},
		{"purge-unread", 1}, {"purge-unread-unnumbered", 1}, {"delete-unread", 1}, {"delete-answered", 1}, {"limit-input", 1}, {"limit-output", 1}, {"limit-output-all", 1},
		{"purge-output", 1}, {"purge-states", 1},
		{"flip-input", 1}, {"flip-unnumbered", 1}, {"flip-output", 1}, {"flip-states", 1}, {"flip-rows", 1},
		{"sum-input", 1}, {"sum-embedded", 1}, {"sum-output", 1}, {"sum-states", 1},
		{"empty", 1}, {"empty-unnumbered", 1}, {"empty-restart", 1}, {"empty-output", 1}, {"empty-output-restart", 1}, {"consumer-limit", 1},
		{"resize", 1}, {"resize-window", 1}, {"replace", 1}, {"replace-window", 1}, {"backfill", 1}, {"backfill-window", 1}, {"alarms", 1}, {"alarms-early", 1},
		{"gateway", 1}, {"recorder", 1}, {"learn", 1},
		{"power", 1}, {"power-always", 1}, {"power-three", 1}, {"power-three-always", 1},
		{"no-fence", 2}, {"no-dedup", 2}, {"msg-id-only", 2},
		{"unnumbered-no-fence", 1}, {"deaths-no-dedup", 1}, {"split-no-ahead", 1}, {"rivals-any-model", 1}, {"one-way-no-fence", 1}, {"promotions-forgotten", 1},
		{"rewind-no-reset", 1}, {"rewind-no-input", 1}, {"delete-no-digest", 1},
		{"flip-no-input", 1}, {"power-no-input", 1}, {"sum-stock", 1},
		{"gateway-no-id", 1}, {"recorder-lost-file", 1}, {"learn-left-out", 1},
	},
	"controls": controls(),
}

// controls is every negative control once.
func controls() (list []entry) {
	for _, s := range catalog() {
		if s.control() != "" {
			list = append(list, entry{s.Name, 1})
		}
	}
	return list
}

func findScenario(name string) (*scenario, error) {
	all := catalog()
	i := slices.IndexFunc(all, func(s *scenario) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("chaos: no run named %q; --list shows them", name)
	}
	return all[i], nil
}
