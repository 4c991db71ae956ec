//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// result is the outcome of a run: one line of text, one object of --json.
type result struct {
	Run     string   `json:"run"`
	Seed    uint64   `json:"seed"`
	OK      bool     `json:"ok"` // the run passed; a negative control passes if the fault was found
	Control string   `json:"control,omitempty"`
	Why     []string `json:"why,omitempty"`
	Skipped string   `json:"skipped,omitempty"` // the reason for not running

	Attempts int `json:"attempts"` // 1; up to mostAttempts for a negative control, and for a run that showed nothing

	Nodes       int      `json:"nodes"`
	Workers     []int    `json:"workers"`
	Policy      string   `json:"policy"`
	Predictions int      `json:"predictions"` // compared predictions
	Lost        int      `json:"lost"`
	Duplicated  int      `json:"duplicated"`
	Wrong       int      `json:"wrong"`
	May         string   `json:"may"`               // the allowed results of a partition
	Flagged     int      `json:"flagged"`           // predictions with a flag because of the fault
	Excused     int      `json:"excused"`           // not made, with a flag on the next prediction or a recorded stop
	Stopped     []string `json:"stopped,omitempty"` // partitions, with the reason
	Handed      int      `json:"handed_over"`       // claims in the middle of a split commit
	Closed      int      `json:"closed_streams"`    // streams whose final states were seen in a prediction
	Silenced    int      `json:"ended_by_silence"`  // sequences
	States      int      `json:"states"`            // partitions whose final states were compared
	Differing   int      `json:"differing_states"`

	Input  inputCounts    `json:"input"`
	Faults faultCounts    `json:"faults"`
	Exits  map[string]int `json:"worker_exits,omitempty"` // ends without a fault

	Seconds float64 `json:"seconds"`
	Repeat  string  `json:"repeat"` // the command to repeat the run
	Dir     string  `json:"dir,omitempty"`
}

// inputCounts counts the actions of the producers.
type inputCounts struct {
	Messages int `json:"messages"` // acknowledged, repeats included
	Repeats  int `json:"repeats"`
	Late     int `json:"late"` // sent after later messages
	Damaged  int `json:"damaged"`
	Retries  int `json:"retries"` // resent because no answer arrived
	Dropped  int `json:"dropped"` // by the truth: repeats and late messages
	Deaths   int `json:"deaths"`  // deaths of producers, between sending and the answer
	Reused   int `json:"reused"`  // numbers reused with other content
}

func newResult(s *scenario, seed uint64) *result {
	return &result{
		Run: s.Name, Seed: seed, Control: s.control(), Nodes: s.Nodes, Workers: s.Workers, Policy: s.Policy, May: s.May.String(),
		Repeat: fmt.Sprintf("go run ./integration/chaos --run %s --seed %d", s.Name, seed),
	}
}

// skippedResult is the result of a run that this machine cannot perform: a failure if the
// list EUSN_REQUIRE names the missing part.
func skippedResult(s *scenario, seed uint64, why string) *result {
	const part = "loopmount"
	r := newResult(s, seed)
	r.Skipped = fmt.Sprintf("NOT CHECKED, %s absent: %s", part, why)
	if slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part) {
		r.addFailure("EUSN_REQUIRE names %s: %s", part, why)
	}
	r.OK = len(r.Why) == 0
	return r
}

func (r *result) addFailure(format string, args ...any) {
	r.Why = append(r.Why, fmt.Sprintf(format, args...))
}

// conclude fills in the result and judges the run.
func (r *result) conclude(u *run, err error) {
	found := 0
	if errors.Is(err, errFound) {
		found++
	} else if err != nil {
		r.addFailure("%v", err)
	}
	if p := u.producers; p != nil {
		r.Input = p.counts
	}
	if u.truth != nil {
		r.Input.Dropped = u.truth.dropped
	}
	if a := u.audit; a != nil {
		r.Predictions, r.Lost, r.Duplicated, r.Wrong = a.total, a.lost, a.duplicated, a.wrong
		r.Flagged, r.Excused, r.Handed = a.flagged, a.excused, a.handed
		r.Closed = len(a.want)
		found += a.lost + a.duplicated + a.wrong
		if found > 0 && r.Control == "" {
			r.addFailure("%d lost, %d duplicated, %d wrong: %s", a.lost, a.duplicated, a.wrong, strings.Join(a.notes, "; "))
		}
	}
	if u.fleet != nil {
		r.copyFleet(u)
	}
	if r.Control != "" && found == 0 {
		r.addFailure("the comparison found no fault with %q switched off", r.Control)
	}
	r.OK = len(r.Why) == 0
}

// copyFleet copies the fleet's counts, and checks that the planned faults happened.
func (r *result) copyFleet(u *run) {
	f, s := u.fleet, u.scenario
	for _, z := range f.sleeps {
		if u.audit != nil && u.audit.wasTakenOver(z.from.UnixNano(), z.to.UnixNano()) {
			f.faults.Overtaken++
		}
	}
	r.Faults, r.Exits = f.faults, f.exits
	if f.err != nil {
		r.addFailure("%v", f.err)
	}
	short := func(what string, got, want int) {
		if got < want {
			r.addFailure("%d of %d planned faults happened: %s", got, want, what)
		}
	}
	short("worker kills", r.Faults.WorkerKills, s.Kills)
	short("zombies", r.Faults.Zombies, s.Zombies)
	short("partitions", r.Faults.Partitions, s.Splits)
	short("cuts", r.Faults.Cuts, s.Cuts)
	short("slow links", r.Faults.Slow, s.Slow)
	short("clean restarts", r.Faults.CleanRestarts, s.Restarts)
	short("one-way cuts", r.Faults.OneWay, s.OneWay)
	short("commits taken over between their parts", r.Handed, s.Handed)
	for _, h := range s.Harms {
		short(h.Kind, r.Faults.Harms[h.Kind], s.countHarms(h.Kind))
	}
	short("deaths of producers", r.Input.Deaths, min(1, int(1e6*s.Traffic.Deaths)))
	short("server kills", r.Faults.ServerKills, s.ServerKills)
	short("scale steps", r.Faults.ScaleSteps, len(s.Workers)-1)
}

// format returns the result as text.
func (r *result) format() string {
	if r.Skipped != "" && r.OK {
		return fmt.Sprintf("SKIP %-22s %s", r.Run, r.Skipped)
	}
	verdict := "ok  "
	if !r.OK {
		verdict = "FAIL"
	}
	f := r.Faults
	s := fmt.Sprintf("%s %-22s seed %-6d %5.0f s  %6d predictions: %d lost, %d duplicated, %d wrong, %d flagged, %d excused, %d partitions stopped, %d of %d states differ | kills %d, zombies %d, partitions %d (late traffic %d), overtaken %d, cuts %d, slow %d, restarts %d, scale %d, server kills %d (leaders %d), one-way cuts %d, handed over %d, stores: %s | input %d: %d repeats, %d late, %d damaged, %d retries",
		verdict, r.Run, r.Seed, r.Seconds, r.Predictions, r.Lost, r.Duplicated, r.Wrong, r.Flagged, r.Excused, len(r.Stopped), r.Differing, r.States,
		f.WorkerKills, f.Zombies, f.Partitions, f.LatePartitions, f.Overtaken, f.Cuts, f.Slow, f.CleanRestarts, f.ScaleSteps, f.ServerKills, f.LeaderKills, f.OneWay, r.Handed, f.formatHarms(),
		r.Input.Messages, r.Input.Repeats, r.Input.Late, r.Input.Damaged, r.Input.Retries)
	if r.Attempts > 1 {
		s += fmt.Sprintf(" | attempt %d", r.Attempts)
	}
	for _, w := range r.Why {
		s += "\n     " + w
	}
	if !r.OK {
		s += "\n     repeat: " + r.Repeat + "\n     kept:  " + r.Dir
	}
	return s
}

// totals sums up the runs; negative controls are counted separately.
type totals struct {
	Runs        int         `json:"runs"`
	Failed      int         `json:"failed"`
	Skipped     int         `json:"skipped"`
	Controls    int         `json:"controls"`       // negative controls
	Found       int         `json:"controls_found"` // controls whose fault was found
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

func (t *totals) addResult(r *result) {
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
	t.Input.addCounts(r.Input)
	t.Faults.addCounts(r.Faults)
}

func (c *inputCounts) addCounts(o inputCounts) {
	c.Messages += o.Messages
	c.Repeats += o.Repeats
	c.Late += o.Late
	c.Damaged += o.Damaged
	c.Retries += o.Retries
	c.Dropped += o.Dropped
	c.Deaths += o.Deaths
	c.Reused += o.Reused
}

func (c *faultCounts) addCounts(o faultCounts) {
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
		c.addHarm(what, n)
	}
}

// addHarm counts damage to stores.
func (c *faultCounts) addHarm(what string, n int) {
	if c.Harms == nil {
		c.Harms = map[string]int{}
	}
	c.Harms[what] += n
}

// formatHarms lists the damage.
func (c *faultCounts) formatHarms() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.Harms)) {
		all = append(all, fmt.Sprintf("%d %s", c.Harms[what], what))
	}
	return strings.Join(all, ", ")
}

// findIdle reports faults that weaken the figures of a matrix: zombies and network
// partitions without a takeover by another worker. A few faults have no meaningful share.
func (t *totals) findIdle() string {
	if gone := t.Faults.Zombies + t.Faults.Partitions + t.Faults.OneWay; gone >= 10 && 2*t.Faults.Overtaken < gone {
		return fmt.Sprintf("only %d of %d zombies, partitions and one-way cuts were overtaken by another worker", t.Faults.Overtaken, gone)
	}
	return ""
}

// format returns the totals as text.
func (t *totals) format() string {
	f := t.Faults
	s := fmt.Sprintf("%d runs, %d predictions: %d lost, %d duplicated, %d silently wrong, %d flagged, %d not made after a flag or a stop, %d partitions stopped; final states: %d streams seen in predictions, %d sequences ended by silence, %d of %d partitions differ; "+
		"%d worker kills, %d zombies, %d partitions (%d with traffic in flight, %d bytes delivered late), %d of both overtaken, %d cuts, %d slow links, %d clean restarts, %d scale steps, %d server kills (%d of leaders), %d one-way cuts, %d split commits taken over, stores: %s; "+
		"%d input messages with %d repeats, %d late, %d damaged, %d retries, %d deaths of producers (%d reused numbers); %.0f s",
		t.Runs, t.Predictions, t.Lost, t.Duplicated, t.Wrong, t.Flagged, t.Excused, t.Stopped, t.Closed, t.Silenced, t.Differing, t.States,
		f.WorkerKills, f.Zombies, f.Partitions, f.LatePartitions, f.LateBytes, f.Overtaken, f.Cuts, f.Slow, f.CleanRestarts, f.ScaleSteps, f.ServerKills, f.LeaderKills, f.OneWay, t.Handed, f.formatHarms(),
		t.Input.Messages, t.Input.Repeats, t.Input.Late, t.Input.Damaged, t.Input.Retries, t.Input.Deaths, t.Input.Reused, t.Seconds)
	if t.Controls > 0 {
		s += fmt.Sprintf("; %d of %d negative controls found out", t.Found, t.Controls)
	}
	if t.Skipped > 0 {
		s += fmt.Sprintf("; %d runs NOT CHECKED", t.Skipped)
	}
	if idle := t.findIdle(); idle != "" {
		s += "; FAILED: " + idle
	}
	if t.Failed > 0 {
		s += fmt.Sprintf("; %d FAILED", t.Failed)
	}
	return s
}
