//go:build linux

package main

import (
	"time"
)

// jobFaults are runs in which something happens to the job as a whole.
func jobFaults() []*scenario {
	nameless := func(s *scenario) { s.Traffic.Unnumbered, s.Traffic.Repeat = true, 0 }
	statesAndOutput := []string{outputStream, snapStream, rowStream}
	resizes := []harm{resized(0.2, 12), resized(0.5, 3), resized(0.8, 8)}
	return []*scenario{
		harmed("empty", flaggedOrStopped, empty(0.5, false, allStreams...)),
		harmed("empty-unnumbered", flaggedOrStopped, empty(0.5, false, allStreams...)).with(nameless),
		harmed("empty-restart", flaggedOrStopped, empty(0.5, true, allStreams...)),
		harmed("empty-output", orStopped, empty(0.5, false, statesAndOutput...)),
		harmed("empty-output-restart", orStopped, empty(0.5, true, statesAndOutput...)),

		// A killed worker's consumers stay for half a minute: a server's default is
		// 1,000 of them on a NATS stream.
		base("consumer-limit").with(func(s *scenario) { s.Partitions, s.Workers, s.Kills, s.Load = 300, []int{2}, 12, 20*time.Second }),

		base("resize").with(func(s *scenario) { s.Workers, s.Harms = []int{2}, resizes }),
		base("resize-window").with(func(s *scenario) { s.Policy, s.Slots, s.Harms, s.ServerKills = "window", 30, resizes, 1 }),
		base("replace").with(func(s *scenario) { s.Workers, s.Harms = []int{2}, replaced(0.1, 0.6) }),
		base("replace-window").with(func(s *scenario) { s.Policy, s.Harms, s.Kills = "window", replaced(0.1, 0.5), 2 }),
	}
}
