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
	names    *regexp.Regexp
	jobs     int // faults at a time
	duration time.Duration
	seeds    string

	root, dir, program string
}

// history is the report about a fault, a line of JSON. Histories run one after the other,
// so the number of histories is the same on every machine if the fault was found.
type history struct {
	Fault     string  `json:"fault"`
	File      string  `json:"file"`
	Found     bool    `json:"found"`
	Seed      uint64  `json:"seed,omitempty"` // of the first failed history
	Histories int     `json:"histories"`
	Seconds   float64 `json:"seconds"`           // with the build
	Failure   string  `json:"failure,omitempty"` // first sentence
}

// listSimulated returns the faults that the simulation must find.
func listSimulated(names *regexp.Regexp) (all []planted) {
	for _, p := range protocol {
		if p.simulated {
			all = append(all, p)
		}
	}
	all = append(all, simulated...)
	return slices.DeleteFunc(all, func(p planted) bool { return !names.MatchString(p.name) })
}

// simulateFaults plants the faults with a matching name, and returns the number of
// faults not found by a history.
func (s simulating) simulateFaults(ctx context.Context, out io.Writer) (lived int, err error) {
	all := listSimulated(s.names)
	if len(all) == 0 {
		return 0, fmt.Errorf("no fault of the simulation has a name that matches %s", s.names)
	}
	if s.root, err = moduleRoot(); err != nil {
		return 0, err
	}
	if s.dir, err = os.MkdirTemp("", "mutants-*"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(s.dir)
	s.program = filepath.Join(s.dir, "simulate")
	if b, err := s.runTool(ctx, "go", "build", "-o", s.program, "./tools/simulate"); err != nil {
		return 0, fmt.Errorf("tools/simulate does not build: %w: %s", err, b)
	}
	next := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed []error
	for range max(1, s.jobs) {
		wg.Go(func() {
			for i := range next {
				h, err := s.simulateFault(ctx, all[i], i)
				mu.Lock()
				if err != nil {
					failed = append(failed, err)
				} else {
					line, _ := json.Marshal(h)
					fmt.Fprintf(out, "%s\n", line)
				}
				if !h.Found && err == nil {
					lived++
				}
				mu.Unlock()
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	fmt.Fprintf(out, "%d faults planted, %d found\n", len(all)-len(failed), len(all)-len(failed)-lived)
	return lived, errors.Join(failed...)
}

// simulateFault builds the simulation with a fault, and runs histories until one fails.
func (s simulating) simulateFault(ctx context.Context, p planted, i int) (h history, err error) {
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	path := filepath.Join(s.root, p.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return h, err
	}
	changed, err := p.apply(string(text))
	if err != nil {
		return h, err
	}
	file := filepath.Join(s.dir, strconv.Itoa(i)+".go")
	if err := os.WriteFile(file, []byte(changed), 0o666); err != nil {
		return h, err
	}
	begin := time.Now()
	said, err := s.runTool(ctx, s.program, "-replace", path+"="+file, "-first", "-jobs", "1", "-cpu", s.duration.String(), "-seeds", s.seeds, "-guests", p.guests)
	h = history{Fault: p.name, File: p.file, Seconds: time.Since(begin).Round(time.Second).Seconds()}
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
	}
	if err := json.Unmarshal([]byte(said[from:]), &sum); err != nil {
		return err
	}
	h.Histories, h.Found = sum.Histories, len(sum.Failed) > 0
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
