package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// summary sums up histories.
type summary struct {
	mu     sync.Mutex
	begin  time.Time
	out    io.Writer
	traces map[uint64]string

	failures []history

	Histories   int            `json:"histories"`
	Failed      []uint64       `json:"failed"`
	Differing   []uint64       `json:"differing,omitempty"` // seeds with two traces
	Compared    int            `json:"compared,omitempty"`  // seeds that ran twice
	Predictions int            `json:"predictions"`
	States      int            `json:"states"`
	Faults      map[string]int `json:"faults"`
	Pairs       map[string]int `json:"pairs"`        // histories with both faults
	Seen        map[string]int `json:"seen"`         // states that histories should reach
	Exits       map[string]int `json:"worker_exits"` // by reason, without times and numbers
	Virtual     float64        `json:"virtual_s"`
	CPU         float64        `json:"cpu_s"` // of all histories
	PerMinute   float64        `json:"histories_per_minute"`
}

func newSummary(out io.Writer) *summary {
	return &summary{
		begin: time.Now(), out: out, traces: map[uint64]string{}, Failed: []uint64{},
		Faults: map[string]int{}, Pairs: map[string]int{}, Seen: map[string]int{}, Exits: map[string]int{},
	}
}

// addHistory adds a history; again: the second of its seed.
func (s *summary) addHistory(h history, again, each bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CPU += h.CPU
	if each {
		line, _ := json.Marshal(h)
		fmt.Fprintf(s.out, "%s\n", line)
	}
	if again {
		s.Compared++
		if s.traces[h.Seed] != h.Trace {
			s.Differing = append(s.Differing, h.Seed)
			fmt.Fprintf(s.out, "DIFFERS seed %d: traces %s and %s\n", h.Seed, s.traces[h.Seed], h.Trace)
		}
		return
	}
	s.traces[h.Seed] = h.Trace
	s.Histories++
	s.Predictions += h.Predictions
	s.States += h.States
	s.Virtual += h.Virtual
	names := slices.Sorted(maps.Keys(h.Faults))
	for i, a := range names {
		s.Faults[a] += h.Faults[a]
		for _, b := range names[i+1:] {
			s.Pairs[a+" + "+b]++
		}
	}
	for name, n := range h.Seen {
		s.Seen[name] += n
	}
	for name, n := range h.Exits {
		s.Exits[reasonOf(name)] += n
	}
	if len(h.Failures) > 0 {
		s.Failed, s.failures = append(s.Failed, h.Seed), append(s.failures, h)
		fmt.Fprintf(s.out, "FAIL seed %d%s, %s: %s\n", h.Seed, nameOf(h), formatFaults(h.Faults), strings.Join(h.Failures, "; "))
	}
	if n := s.Histories; n%100 == 0 {
		fmt.Fprintf(os.Stderr, "simulate: %d histories, %d failed, %.0f a minute\n", n, len(s.Failed), float64(n)/time.Since(s.begin).Minutes())
	}
}

func formatFaults(faults map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		all = append(all, fmt.Sprintf("%d %s", faults[name], name))
	}
	return strings.Join(all, ", ")
}

func (s *summary) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Failed)+len(s.Differing) > 0
}

// usedCPU returns the processor time of the histories so far.
func (s *summary) usedCPU() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.CPU * float64(time.Second))
}

func (s *summary) print() {
	s.PerMinute = float64(s.Histories+s.Compared) / time.Since(s.begin).Minutes()
	slices.Sort(s.Failed)
	line, _ := json.MarshalIndent(s, "", "  ")
	fmt.Fprintf(s.out, "%s\n", line)
}

// nameOf returns " (NAME)" for a history of a kept plan.
func nameOf(h history) string {
	if h.Plan == nil || h.Plan.Name == "" {
		return ""
	}
	return " (" + h.Plan.Name + ")"
}
