//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// scenario is what a run does; the seed decides when and to whom.
type scenario struct {
	Name       string
	Nodes      int   // NATS servers: 1 or 3
	Workers    []int // how many, in phases of equal length
	Partitions int
	Policy     string // key of policies
	Traffic    traffic
	Reorder    int // messages the stage may hold back per key
	Load       time.Duration
	Slots      int           // state rows of a shard; 0 = the default, room for all
	Idle       time.Duration // silence that ends a sequence; 0 = never
	Unsafe     string        // safety switched off in the workers; a negative control

	Kills, Zombies, Splits, Cuts, Slow, Restarts, ServerKills int
}

// config is the workers' configuration file: small batches and frequent
// snapshots, so that faults find the stage in the middle of everything.
func (s *scenario) config() string {
	reorder := s.Reorder
	if reorder == 0 {
		reorder = -1 // none; 0 would be a mistake there
	}
	return fmt.Sprintf(`nats:
  replicas: %d
input:
  reorder: %d
stage:
  shards: 2
  rows: 512
  snapshot_messages: %d
  snapshot_every: 4s
  lease: %s
  idle: %s
`, s.Nodes, reorder, snapshotMessages, lease, s.Idle) + s.slots()
}

func (s *scenario) slots() string {
	if s.Slots == 0 {
		return ""
	}
	return fmt.Sprintf("  max_slots: %d\n", s.Slots)
}

const (
	snapshotMessages = 120
	lease            = 3 * time.Second // zombies and partitions last longer
)

// stageReorder is how many messages of a key the stage holds back by default.
const stageReorder = 16

// usual is the traffic of most runs: about 12,000 predictions.
var usual = traffic{Keys: 40, Messages: 260, Gateways: 5, Repeat: 0.05, Late: 0.02, LateBy: 3, Missing: 0.001, Damaged: 0.002}

// sparse is the traffic of many streams that fall silent between messages:
// longer than the idle time of the runs with it, which is longer than the
// stage's second of precision.
var sparse = traffic{Keys: 300, Messages: 10, Gateways: 5, Repeat: 0.05, Late: 0.05, LateBy: 2, Missing: 0.01, Damaged: 0.005}

const sparseIdle = 1500 * time.Millisecond

// base is what scenarios are made from.
func base(name string) *scenario {
	return &scenario{Name: name, Nodes: 1, Workers: []int{1}, Partitions: 8, Policy: "marked", Traffic: usual, Reorder: stageReorder, Load: 20 * time.Second}
}

// with changes a scenario.
func (s *scenario) with(f func(*scenario)) *scenario {
	f(s)
	return s
}

// catalogue is every scenario there is.
func catalogue() []*scenario {
	scale := []int{1, 3, 2}
	return []*scenario{
		base("calm").with(func(s *scenario) { s.Load = 5 * time.Second }),

		base("worker-kills").with(func(s *scenario) { s.Kills = 8 }),
		base("worker-kills-window").with(func(s *scenario) { s.Kills, s.Policy = 8, "window" }),
		base("worker-kills-count").with(func(s *scenario) { s.Kills, s.Policy = 8, "count" }),
		base("worker-kills-early").with(func(s *scenario) { s.Kills, s.Policy, s.Partitions = 8, "early", 32 }),
		base("server-kills").with(func(s *scenario) { s.ServerKills, s.Kills = 5, 3 }),
		base("links").with(func(s *scenario) { s.Cuts, s.Slow, s.Restarts = 4, 3, 3 }),
		base("zombies").with(func(s *scenario) { s.Zombies, s.Kills = 3, 2 }),
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

		base("no-fence").with(func(s *scenario) { s.Unsafe, s.Zombies, s.Splits = "nofence", 2, 1 }),
		base("no-dedup").with(func(s *scenario) { s.Unsafe, s.Load = "nodedup", 5*time.Second }),
		base("msg-id-only").with(func(s *scenario) { s.Unsafe, s.Zombies, s.Splits, s.Kills = "msgid", 2, 1, 2 }),
	}
}

// entry is a scenario and how often it is run.
type entry struct {
	name  string
	times int
}

// matrices are the collections that --matrix names. The long one is what the
// project claims: at least 40 runs, 400,000 predictions, 200 worker kills, 60
// zombies, 60 server kills and 30 partitions, and every negative control.
var matrices = map[string][]entry{
	"short": {{"cluster-scale", 1}, {"scale-mixed", 1}, {"worker-kills-window", 1}, {"idle-spill", 1}, {"no-dedup", 1}, {"no-fence", 1}},
	"long": {
		{"calm", 1},
		{"worker-kills", 2}, {"worker-kills-window", 2}, {"worker-kills-count", 2}, {"worker-kills-early", 2},
		{"idle-spill", 2}, {"idle-spill-scale", 3}, {"spill-window", 2},
		{"server-kills", 3}, {"links", 2}, {"zombies", 5}, {"splits", 6}, {"disorder", 3},
		{"scale", 3}, {"scale-mixed", 6}, {"three-zombies", 6},
		{"cluster-kills", 4}, {"cluster-scale", 6}, {"cluster-window", 4},
		{"no-fence", 2}, {"no-dedup", 2}, {"msg-id-only", 2},
	},
	"controls": {{"no-fence", 1}, {"no-dedup", 1}, {"msg-id-only", 1}},
}

func find(name string) (*scenario, error) {
	all := catalogue()
	i := slices.IndexFunc(all, func(s *scenario) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("chaos: no run named %q; --list shows them", name)
	}
	return all[i], nil
}
