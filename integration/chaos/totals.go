//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// totals sums up the runs; negative controls are counted separately.
type totals struct {
	Runs        int         `json:"runs"`
	Failed      int         `json:"failed"`
	Skipped     int         `json:"skipped"`
	Controls    int         `json:"controls"`       // negative controls
	Found       int         `json:"controls_found"` // whose fault was found
	Predictions int         `json:"predictions"`
	Lost        int         `json:"lost"`
	Duplicated  int         `json:"duplicated"`
	Wrong       int         `json:"wrong"`
	Flagged     int         `json:"flagged"`
	Excused     int         `json:"excused"`
	Stopped     int         `json:"stopped"` // partitions
	Handed      int         `json:"handed_over"`
	Closed      int         `json:"closed_streams"`
	Silenced    int         `json:"ended_by_silence"` // sequences
	States      int         `json:"states"`
	Differing   int         `json:"differing_states"`
	Input       inputCounts `json:"input"`
	Faults      faultCounts `json:"faults"`
	Seconds     float64     `json:"seconds"`
}

func (t *totals) add(r *result) {
	if !r.OK {
		t.Failed++
	}
	if r.Skipped != "" {
		t.Skipped++
		return
	}
	if r.Control != "" {
		t.Controls++
		if r.OK {
			t.Found++
		}
		return
	}
	t.Runs++
	t.Predictions += r.Predictions
	t.Lost += r.Lost
	t.Duplicated += r.Duplicated
	t.Wrong += r.Wrong
	t.Flagged += r.Flagged
	t.Excused += r.Excused
	t.Stopped += len(r.Stopped)
	t.Handed += r.Handed
	t.Closed += r.Closed
	t.Silenced += r.Silenced
	t.States += r.States
	t.Differing += r.Differing
	t.Input.add(r.Input)
	t.Faults.add(r.Faults)
}

func (c *inputCounts) add(o inputCounts) {
	c.Messages += o.Messages
	c.Repeats += o.Repeats
	c.Late += o.Late
	c.Damaged += o.Damaged
	c.Retries += o.Retries
	c.Dropped += o.Dropped
	c.Deaths += o.Deaths
	c.Reused += o.Reused
}

func (c *faultCounts) add(o faultCounts) {
	c.WorkerKills += o.WorkerKills
	c.Zombies += o.Zombies
	c.Overtaken += o.Overtaken
	c.ServerKills += o.ServerKills
	c.LeaderKills += o.LeaderKills
	c.Partitions += o.Partitions
	c.LatePartitions += o.LatePartitions
	c.LateBytes += o.LateBytes
	c.Cuts += o.Cuts
	c.CutConns += o.CutConns
	c.Slow += o.Slow
	c.CleanRestarts += o.CleanRestarts
	c.ScaleSteps += o.ScaleSteps
	c.OneWay += o.OneWay
	for what, n := range o.Harms {
		c.harmed(what, n)
	}
}

// harmed counts damage to stores.
func (c *faultCounts) harmed(what string, n int) {
	if c.Harms == nil {
		c.Harms = map[string]int{}
	}
	c.Harms[what] += n
}

// harms lists them.
func (c *faultCounts) harms() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.Harms)) {
		all = append(all, fmt.Sprintf("%d %s", c.Harms[what], what))
	}
	return strings.Join(all, ", ")
}

// idle names what makes the figures weaker than they look: zombies and network
// partitions during which no other worker took over.
func (t *totals) idle() string {
	if gone := t.Faults.Zombies + t.Faults.Partitions + t.Faults.OneWay; 2*t.Faults.Overtaken < gone {
		return fmt.Sprintf("only %d of %d zombies, partitions and one-way cuts were overtaken by another worker", t.Faults.Overtaken, gone)
	}
	return ""
}

// line is the totals for people.
func (t *totals) line() string {
	f := t.Faults
	s := fmt.Sprintf("%d runs, %d predictions: %d lost, %d duplicated, %d silently wrong, %d flagged, %d not made behind a flag or a stop, %d partitions stopped; final states: %d streams seen in predictions, %d sequences ended by silence, %d of %d partitions differ; "+
		"%d worker kills, %d zombies, %d partitions (%d with traffic in flight, %d bytes delivered late), %d of both overtaken, %d cuts, %d slow links, %d clean restarts, %d scale steps, %d server kills (%d of leaders), %d one-way cuts, %d split commits taken over, stores: %s; "+
		"%d input messages with %d repeats, %d late, %d damaged, %d retries, %d deaths of producers (%d reused numbers); %.0f s",
		t.Runs, t.Predictions, t.Lost, t.Duplicated, t.Wrong, t.Flagged, t.Excused, t.Stopped, t.Closed, t.Silenced, t.Differing, t.States,
		f.WorkerKills, f.Zombies, f.Partitions, f.LatePartitions, f.LateBytes, f.Overtaken, f.Cuts, f.Slow, f.CleanRestarts, f.ScaleSteps, f.ServerKills, f.LeaderKills, f.OneWay, t.Handed, f.harms(),
		t.Input.Messages, t.Input.Repeats, t.Input.Late, t.Input.Damaged, t.Input.Retries, t.Input.Deaths, t.Input.Reused, t.Seconds)
	if t.Controls > 0 {
		s += fmt.Sprintf("; %d of %d negative controls found out", t.Found, t.Controls)
	}
	if t.Skipped > 0 {
		s += fmt.Sprintf("; %d runs NOT CHECKED", t.Skipped)
	}
	if idle := t.idle(); idle != "" {
		s += "; FAILED: " + idle
	}
	if t.Failed > 0 {
		s += fmt.Sprintf("; %d FAILED", t.Failed)
	}
	return s
}
