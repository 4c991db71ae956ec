//go:build linux

package main

import (
	"fmt"
	"strings"
)

// result is a run's outcome: one line for people, one object of --json.
type result struct {
	Run     string   `json:"run"`
	Seed    uint64   `json:"seed"`
	OK      bool     `json:"ok"` // as it should be; of a negative control, that fault was found
	Control string   `json:"control,omitempty"`
	Why     []string `json:"why,omitempty"`

	Nodes       int    `json:"nodes"`
	Workers     []int  `json:"workers"`
	Policy      string `json:"policy"`
	Predictions int    `json:"predictions"` // compared
	Lost        int    `json:"lost"`
	Duplicated  int    `json:"duplicated"`
	Wrong       int    `json:"wrong"`
	Closed      int    `json:"closed_streams"`   // whose final states were seen in a prediction
	Silenced    int    `json:"ended_by_silence"` // sequences
	States      int    `json:"states"`           // partitions whose final states were compared
	Differing   int    `json:"differing_states"`

	Input  inputCounts    `json:"input"`
	Faults faultCounts    `json:"faults"`
	Exits  map[string]int `json:"worker_exits,omitempty"` // by themselves, not by a fault

	Seconds float64 `json:"seconds"`
	Repeat  string  `json:"repeat"` // the command that runs it again
	Dir     string  `json:"dir,omitempty"`
}

// inputCounts is what producers did.
type inputCounts struct {
	Messages int `json:"messages"` // acknowledged, repeats included
	Repeats  int `json:"repeats"`
	Late     int `json:"late"` // sent after later ones
	Damaged  int `json:"damaged"`
	Retries  int `json:"retries"` // sent again for want of an answer
	Dropped  int `json:"dropped"` // by the truth: repeats and too late
}

func newResult(s *scenario, seed uint64) *result {
	return &result{
		Run: s.Name, Seed: seed, Control: s.Unsafe, Nodes: s.Nodes, Workers: s.Workers, Policy: s.Policy,
		Repeat: fmt.Sprintf("go run ./integration/chaos --run %s --seed %d", s.Name, seed),
	}
}

func (r *result) fail(format string, args ...any) {
	r.Why = append(r.Why, fmt.Sprintf(format, args...))
}

// conclude fills the result in and judges it.
func (r *result) conclude(u *run, err error) {
	if err != nil {
		r.fail("%v", err)
	}
	if p := u.producers; p != nil {
		r.Input = p.counts
	}
	if u.truth != nil {
		r.Input.Dropped = u.truth.dropped
	}
	if u.fleet != nil {
		r.fleet(u)
	}
	found := 0
	if a := u.audit; a != nil {
		r.Predictions, r.Lost, r.Duplicated, r.Wrong = a.seen, a.lost, a.duplicated, a.wrong
		r.Closed = len(a.want)
		found = a.lost + a.duplicated + a.wrong
		if found > 0 && r.Control == "" {
			r.fail("%d lost, %d duplicated, %d wrong: %s", a.lost, a.duplicated, a.wrong, strings.Join(a.notes, "; "))
		}
	}
	if r.Control != "" && found == 0 {
		r.fail("the comparison found no fault with %q switched off", r.Control)
	}
	r.OK = len(r.Why) == 0
}

// fleet takes over what the fleet saw, and checks that what was planned
// happened.
func (r *result) fleet(u *run) {
	f, s := u.fleet, u.scenario
	for _, z := range f.sleeps {
		if u.audit != nil && u.audit.overtaken(z.from.UnixNano(), z.to.UnixNano()) {
			f.faults.Overtaken++
		}
	}
	r.Faults, r.Exits = f.faults, f.exits
	if f.err != nil {
		r.fail("%v", f.err)
	}
	short := func(what string, got, want int) {
		if got < want {
			r.fail("%d of %d planned faults happened: %s", got, want, what)
		}
	}
	short("worker kills", r.Faults.WorkerKills, s.Kills)
	short("zombies", r.Faults.Zombies, s.Zombies)
	short("partitions", r.Faults.Partitions, s.Splits)
	short("cuts", r.Faults.Cuts, s.Cuts)
	short("slow links", r.Faults.Slow, s.Slow)
	short("clean restarts", r.Faults.CleanRestarts, s.Restarts)
	short("server kills", r.Faults.ServerKills, s.ServerKills)
	short("scale steps", r.Faults.ScaleSteps, len(s.Workers)-1)
}

// line is the result for people.
func (r *result) line() string {
	verdict := "ok  "
	if !r.OK {
		verdict = "FAIL"
	}
	f := r.Faults
	s := fmt.Sprintf("%s %-22s seed %-6d %5.0f s  %6d predictions: %d lost, %d duplicated, %d wrong, %d of %d states differ | kills %d, zombies %d, partitions %d (late traffic %d), overtaken %d, cuts %d, slow %d, restarts %d, scale %d, server kills %d (leaders %d) | input %d: %d repeats, %d late, %d damaged, %d retries",
		verdict, r.Run, r.Seed, r.Seconds, r.Predictions, r.Lost, r.Duplicated, r.Wrong, r.Differing, r.States,
		f.WorkerKills, f.Zombies, f.Partitions, f.LatePartitions, f.Overtaken, f.Cuts, f.Slow, f.CleanRestarts, f.ScaleSteps, f.ServerKills, f.LeaderKills,
		r.Input.Messages, r.Input.Repeats, r.Input.Late, r.Input.Damaged, r.Input.Retries)
	for _, w := range r.Why {
		s += "\n     " + w
	}
	if !r.OK {
		s += "\n     again: " + r.Repeat + "\n     kept:  " + r.Dir
	}
	return s
}
