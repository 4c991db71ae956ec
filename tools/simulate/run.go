package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// defaultLimit is many times the time of a history on a loaded core.
const defaultLimit = 2 * time.Minute

type options struct {
	seeds, binary, keep string
	plans               string
	jobs                int
	twice, log, each    bool
	shrink, noinline    bool
	limit               time.Duration
	unsafe, guests      string
	replace             replacements
	first               bool
	budget              time.Duration // of processor time
}

// replacements are files of the project that are compiled with other content.
type replacements map[string]string

func (r *replacements) String() string { return "" }

func (r *replacements) Set(text string) error {
	old, changed, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("want OLD=NEW")
	}
	from, err1 := filepath.Abs(old)
	to, err2 := filepath.Abs(changed)
	if *r == nil {
		*r = replacements{}
	}
	(*r)[from] = to
	return errors.Join(err1, err2)
}

// history is the report of a history; see report in integration/chaos.
type history struct {
	Seed        uint64         `json:"seed"`
	Trace       string         `json:"trace"`
	Failures    []string       `json:"failures,omitempty"`
	Predictions int            `json:"predictions"`
	States      int            `json:"states"`
	Faults      map[string]int `json:"faults"`
	Seen        map[string]int `json:"seen"`
	Exits       map[string]int `json:"exits,omitempty"`
	Virtual     float64        `json:"virtual_s"`
	CPU         float64        `json:"cpu_s"` // of the process

	Plan *plan `json:"-"` // nil: the process ended before it had drawn one
}

// runSeeds runs the histories. failed: one failed, or two runs of a seed differ.
func (o *options) runSeeds(ctx context.Context) (failed bool, err error) {
	from, to, err := parseSeeds(o.seeds)
	if err != nil {
		return false, err
	}
	if o.log {
		o.jobs = 1
	}
	binary, clean, err := o.build(ctx)
	if err != nil {
		return false, err
	}
	defer clean()
	s := newSummary(os.Stdout)
	if o.plans != "" {
		err = s.runPlans(ctx, o, binary)
	} else {
		s.runAll(ctx, o, binary, from, to, false)
	}
	if o.twice && o.plans == "" && ctx.Err() == nil {
		s.runAll(ctx, o, binary, from, to, true)
	}
	s.print()
	if o.shrink && err == nil {
		err = s.shrinkFailures(ctx, o, binary)
	}
	return s.failed(), cmp.Or(err, ctx.Err())
}

func parseSeeds(text string) (from, to uint64, err error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 64)
	to, err2 := strconv.ParseUint(last, 10, 64)
	if errors.Join(err1, err2) != nil || to < from {
		return 0, 0, fmt.Errorf("-seeds %q: want a number or a range, such as 1-1000", text)
	}
	return from, to, nil
}

// build compiles the test binary with the overlay.
func (o *options) build(ctx context.Context) (binary string, clean func(), err error) {
	if o.binary != "" {
		return o.binary, func() {}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, edits) // other edits need another folder: another program may be compiling
	dir := filepath.Join(cache, "eusn-stream", fmt.Sprintf("simulate-%x", sum.Sum64()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp("", "simulate-*")
	if err != nil {
		return "", nil, err
	}
	overlay := filepath.Join(temp, "overlay.json") // of this run: two runs may replace different files
	if err := writeOverlay(dir, overlay, o.replace); err != nil {
		return "", nil, err
	}
	binary = cmp.Or(o.keep, filepath.Join(temp, "simulate.test"))
	fmt.Fprintln(os.Stderr, "simulate: building (minutes the first time: the standard library is compiled with the overlay)")
	args := []string{"test", "-c", "-tags", "simulation,chaos", "-overlay", overlay, "-ldflags=-checklinkname=0 -w", "-o", binary}
	if o.noinline {
		args = append(args, "-gcflags=all=-l")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./integration/chaos")...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return binary, func() { os.RemoveAll(temp) }, cmd.Run()
}

// runAll runs a history for each seed, each in its own process: package variables would
// carry over from one history to the next.
func (s *summary) runAll(ctx context.Context, o *options, binary string, from, to uint64, again bool) {
	next := make(chan uint64)
	var wg sync.WaitGroup
	for range max(1, o.jobs) {
		wg.Go(func() {
			for seed := range next {
				if o.first && s.failed() {
					continue
				}
				h := runHistory(ctx, o, binary, seed, nil)
				if ctx.Err() == nil {
					s.addHistory(h, again, o.each)
				}
			}
		})
	}
	for i := range to - from + 1 {
		seed := from + i
		if again {
			seed = to - i
		}
		select {
		case next <- seed:
		case <-ctx.Done():
		}
		if ctx.Err() != nil || o.first && s.failed() || o.budget > 0 && s.usedCPU() > o.budget {
			break
		}
	}
	close(next)
	wg.Wait()
}

// folders numbers the folders of histories: names of one length, as in TestSimulate.
var folders atomic.Int64

// runHistory runs the history of a seed, or of a plan, in a process with one thread for
// goroutines.
func runHistory(ctx context.Context, o *options, binary string, seed uint64, p *plan) history {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestSimulate$")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=off", "GODEBUG=asyncpreemptoff=1,memprofilerate=0", "GOTRACEBACK=all")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if o.unsafe != "" {
		cmd.Env = append(cmd.Env, "UNSAFE="+o.unsafe)
	}
	if o.guests != "" {
		cmd.Env = append(cmd.Env, "GUESTS="+o.guests)
	}
	if o.log {
		cmd.Env = append(cmd.Env, "LOG=1")
		cmd.Stderr = io.MultiWriter(&errs, os.Stderr)
	}
	scratch := filepath.Join(cmp.Or(memoryFolder(), os.TempDir()), fmt.Sprintf("simulate-%010d-%010d", os.Getpid(), folders.Add(1)))
	err := os.Mkdir(scratch, 0o700)
	if err != nil {
		return history{Seed: seed, Failures: []string{err.Error()}}
	}
	defer os.RemoveAll(scratch)
	cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
	place := filepath.Join(scratch, "plan.json") // written by TestSimulate for a seed
	if p == nil {
		cmd.Env = append(cmd.Env, "SEED="+strconv.FormatUint(seed, 10))
	} else if err := writePlan(place, p); err != nil {
		return history{Seed: seed, Failures: []string{err.Error()}}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	h := history{Seed: seed, Plan: p}
	if all, _ := readPlans(place); p == nil && len(all) > 0 {
		h.Plan = all[0]
	}
	if cmd.ProcessState != nil {
		h.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	for line := range bytes.Lines(out.Bytes()) {
		if text, ok := bytes.CutPrefix(line, []byte("HISTORY ")); ok {
			if wrong := json.Unmarshal(text, &h); wrong != nil {
				h.Failures = append(h.Failures, wrong.Error())
			}
			return h
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %v of real time, %.0f s of processor time", o.limit, h.CPU)
	}
	h.addCrash(err, errs.String()+out.String())
	return h
}

// addCrash notes the end of a process that has printed no report.
func (h *history) addCrash(err error, output string) {
	if serverLoops(h.Plan, output) {
		h.Seen = map[string]int{"histories ended by an endless loop of the server": 1}
		return
	}
	h.Failures = append(h.Failures, fmt.Sprintf("%v: %s", err, firstLines(output, 30)))
}

// serverLoops reports whether a history with a full disk or a killed server ended in a loop
// of the server. nats-server 2.15.3 has two such loops: to enforce the number of messages of
// a subject, the server removes the first message, and retries without end if this message
// is missing; after a failed write, the server lists the lost messages without bound, until
// no memory is left. An operator must restart the server.
func serverLoops(p *plan, stacks string) bool {
	_, running, _ := strings.Cut(stacks, " [running")
	running, _, _ = strings.Cut(running, "\n\n")
	return p != nil && strings.Contains(running, "(*fileStore).storeRawMsg(") &&
		slices.ContainsFunc(p.Faults, func(f string) bool {
			return strings.Contains(f, " full disk, ") || strings.Contains(f, " kill server, ")
		})
}

// memoryFolder returns a folder for the stores of the servers that needs no disk, or "".
func memoryFolder() string {
	const folder = "/dev/shm"
	if info, err := os.Stat(folder); os.Getenv("TMPDIR") != "" || err != nil || !info.IsDir() {
		return ""
	}
	return folder
}

// firstLines returns the first lines of the report of a crash.
func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
