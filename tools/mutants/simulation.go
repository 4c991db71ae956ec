package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// simulating plants faults and lets the histories of tools/simulate find them.
type simulating struct {
	names  *regexp.Regexp
	jobs   int           // faults at a time
	budget time.Duration // processor time of the histories of a fault
	seeds  string
	table  string // file of the rows
	repeat bool   // run faults again whose row is of this version

	root, dir, program, binary string
}

// history is the report about a fault, a line of JSON. Histories run one after the other,
// so the number of histories is the same on every machine if the fault was found.
type history struct {
	Fault     string  `json:"fault"`
	File      string  `json:"file"`
	Found     bool    `json:"found"`
	Seed      uint64  `json:"seed,omitempty"` // of the first failed history
	Histories int     `json:"histories"`
	CPU       float64 `json:"cpu_s"`             // of the histories
	Failure   string  `json:"failure,omitempty"` // first sentence
}

// listSimulated returns the faults that the simulation must find.
func listSimulated(names *regexp.Regexp) (all []planted) {
	for _, p := range protocol {
		if p.simulated {
			all = append(all, p)
		}
	}
	all = slices.Concat(all, simulated, past, together)
	return slices.DeleteFunc(all, func(p planted) bool { return !names.MatchString(p.name) })
}

// simulateFaults plants the faults with a matching name that have no row of this version
// in the table, and returns the number of faults not found by a history.
func (s simulating) simulateFaults(ctx context.Context, out io.Writer) (lived int, err error) {
	if len(listSimulated(s.names)) == 0 {
		return 0, fmt.Errorf("no fault of the simulation has a name that matches %s", s.names)
	}
	if s.root, err = moduleRoot(); err != nil {
		return 0, err
	}
	version, err := s.readVersion(ctx)
	if err != nil {
		return 0, err
	}
	s.table = filepath.Join(s.root, s.table)
	t, err := readTable(s.table)
	if err != nil {
		return 0, err
	}
	if s.dir, err = os.MkdirTemp("", "mutants-*"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(s.dir)
	all := listSimulated(regexp.MustCompile("")) // one build for every choice
	if err := s.build(ctx, all); err != nil {
		return 0, err
	}
	var chosen []int
	for i, p := range all {
		if row, done := t[p.name]; s.names.MatchString(p.name) && (s.repeat || !done || row.version != version) {
			chosen = append(chosen, i)
		}
	}
	planted := 0
	err = s.runFaults(ctx, all, chosen, func(h history) error {
		line, _ := json.Marshal(h)
		fmt.Fprintf(out, "%s\n", line)
		if planted++; !h.Found {
			lived++
		}
		t.setRow(h, version)
		return t.writeTable(s.table, all)
	})
	fmt.Fprintf(out, "%d faults planted, %d found\n", planted, planted-lived)
	return lived, err
}

// runFaults runs the histories of the chosen faults, and calls report for one fault at a
// time.
func (s simulating) runFaults(ctx context.Context, all []planted, chosen []int, report func(history) error) error {
	next := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed []error
	for range max(1, s.jobs) {
		wg.Go(func() {
			for i := range next {
				h, err := s.simulateFault(ctx, all[i], i)
				mu.Lock()
				if err == nil {
					err = report(h)
				}
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	for _, i := range chosen {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	return errors.Join(failed...)
}

// readVersion returns the last commit outside of docs, with a mark if the tree has other
// changes.
func (s simulating) readVersion(ctx context.Context) (string, error) {
	version, err1 := s.runTool(ctx, "git", "log", "-1", "--format=%h", "--abbrev=8", "--", ".", ":!docs")
	changes, err2 := s.runTool(ctx, "git", "status", "--porcelain", "--", ".", ":!docs")
	if err := errors.Join(err1, err2); err != nil {
		return "", fmt.Errorf("git: %w: %s", err, version+changes)
	}
	version = strings.TrimSpace(version)
	if changes != "" {
		version += "+changes"
	}
	return version, nil
}

// build builds the histories with a switch for each fault.
func (s *simulating) build(ctx context.Context, all []planted) error {
	s.program, s.binary = filepath.Join(s.dir, "simulate"), filepath.Join(s.dir, "simulate.test")
	if b, err := s.runTool(ctx, "go", "build", "-o", s.program, "./tools/simulate"); err != nil {
		return fmt.Errorf("tools/simulate does not build: %w: %s", err, b)
	}
	files, err := writeSwitches(s.root, s.dir, all)
	if err != nil {
		return err
	}
	args := []string{"-keep", s.binary, "-seeds", "1"}
	for old, changed := range files {
		args = append(args, "-replace", old+"="+changed)
	}
	if said, err := s.runTool(ctx, s.program, args...); err != nil {
		return fmt.Errorf("the histories without a fault: %w: %s", err, said[max(0, len(said)-2000):])
	}
	return nil
}

// simulateFault switches a fault on, and runs histories until one fails.
func (s simulating) simulateFault(ctx context.Context, p planted, i int) (h history, err error) {
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	said, err := s.runTool(ctx, "env", plantedVariable+"="+strconv.Itoa(i), s.program, "-binary", s.binary, "-first", "-jobs", "1", "-cpu", s.budget.String(), "-seeds", s.seeds, "-guests", p.guests)
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	h = history{Fault: p.name, File: p.file}
	if err := h.readReport(said); err != nil {
		return h, fmt.Errorf("%s: the histories did not run: %w: %s", p.name, err, said[max(0, len(said)-2000):])
	}
	var ended *exec.ExitError
	if err != nil && !(errors.As(err, &ended) && ended.ExitCode() == 1) {
		return h, fmt.Errorf("%s: %w: %s", p.name, err, said[max(0, len(said)-2000):])
	}
	return h, nil
}

// readReport reads the report of tools/simulate: lines of failed histories, and a summary.
func (h *history) readReport(said string) error {
	from := strings.Index(said, "\n{\n")
	if strings.HasPrefix(said, "{\n") {
		from = 0
	}
	if from < 0 {
		return errors.New("no summary")
	}
	var sum struct {
		Histories int
		Failed    []uint64
		CPU       float64 `json:"cpu_s"`
	}
	if err := json.Unmarshal([]byte(said[from:]), &sum); err != nil {
		return err
	}
	h.Histories, h.Found, h.CPU = sum.Histories, len(sum.Failed) > 0, sum.CPU
	if !h.Found {
		return nil
	}
	h.Seed = sum.Failed[0]
	_, failure, _ := strings.Cut(said, fmt.Sprintf("FAIL seed %d, ", h.Seed))
	_, failure, _ = strings.Cut(failure, ": ") // after the faults of the history
	failure, _, _ = strings.Cut(failure, "\n")
	failure, _, _ = strings.Cut(failure, "; ")
	h.Failure = failure[:min(len(failure), 300)]
	return nil
}

// runTool runs a program in the root of the repository, and returns its standard output,
// or what it wrote to standard error if there is none.
func (s simulating) runTool(ctx context.Context, name string, args ...string) (said string, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, &out, &errs
	err = cmd.Run()
	return cmp.Or(out.String(), errs.String()), err
}
