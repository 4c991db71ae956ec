//go:build linux

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == natsServerCommand {
		os.Exit(natsServer(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := mainWith(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the options of the command line.
type options struct {
	matrix, runs, worker, dir string
	seed                      uint64
	times, jobs               int
	json, keep, list, race    bool
}

func parseOptions(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.matrix, "matrix", "long", "which runs: "+strings.Join(slices.Sorted(maps.Keys(matrices)), ", "))
	f.StringVar(&o.runs, "run", "", "comma list of runs instead of a matrix (see --list)")
	f.IntVar(&o.times, "times", 1, "how often each of --run")
	f.IntVar(&o.jobs, "jobs", 2, "runs at the same time")
	f.Uint64Var(&o.seed, "seed", 0, "of the first run, counted up; 0 = drawn")
	f.StringVar(&o.worker, "worker", "", "worker binary; empty = built from this module with the tag chaos")
	f.BoolVar(&o.race, "race", false, "build the worker with the race detector")
	f.StringVar(&o.dir, "dir", "", "directory of the runs; empty = a temporary directory")
	f.BoolVar(&o.keep, "keep", false, "keep the directories of all runs, not only of failed runs")
	f.BoolVar(&o.json, "json", false, "one JSON object per run, and one with the totals")
	f.BoolVar(&o.list, "list", false, "list the runs and end")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.jobs < 1 || o.times < 1 || f.NArg() > 0 {
		err := fmt.Errorf("chaos: --jobs %d, --times %d, arguments %q: want at least 1, 1 and none", o.jobs, o.times, f.Args())
		fmt.Fprintln(stderr, err)
		return o, err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1e6) + 1
	}
	return o, nil
}

// chosenRuns returns the list of runs.
func (o *options) chosenRuns() (list []*scenario, err error) {
	entries, ok := matrices[o.matrix]
	if !ok {
		return nil, fmt.Errorf("chaos: no matrix %q", o.matrix)
	}
	if o.runs != "" {
		entries = nil
		for name := range strings.SplitSeq(o.runs, ",") {
			entries = append(entries, entry{name, o.times})
		}
	}
	for _, e := range entries {
		s, err := findScenario(e.name)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.Repeat([]*scenario{s}, e.times)...)
	}
	return list, nil
}

func mainWith(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return 2
	}
	if o.list {
		for _, s := range catalog() {
			fmt.Fprintf(stdout, "%-23s %d server(s), workers %v, %s, %s\n", s.Name, s.Nodes, s.Workers, s.Policy, s.expects())
		}
		return 0
	}
	list, err := o.chosenRuns()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if err := o.prepareRun(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if !o.json {
		fmt.Fprintf(stdout, "%d runs, seeds %d to %d, in %s\n", len(list), o.seed, o.seed+uint64(len(list))-1, o.dir)
	}
	t := performRuns(ctx, &o, list, stdout)
	if t.Failed == 0 && !o.keep {
		os.RemoveAll(o.dir)
	}
	if t.Failed > 0 || t.findIdle() != "" || ctx.Err() != nil {
		return 1
	}
	return 0
}

// prepareRun creates the directory and builds the worker.
func (o *options) prepareRun() (err error) {
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "eusn-chaos-")
	} else {
		err = os.MkdirAll(o.dir, 0o755)
	}
	if err != nil || o.worker != "" {
		return err
	}
	o.worker = filepath.Join(o.dir, "eusn-stream")
	args := []string{"build", "-tags", "chaos", "-o", o.worker}
	if o.race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/eusn-stream/eusn-stream/cmd/eusn-stream")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chaos: building the worker: %w\n%s", err, out)
	}
	return nil
}

// mostAttempts is the largest number of attempts for a negative control to find its
// fault, and for a run with promotions to apply a promotion under load. The scheduler of
// the machine decides whether the fault meets the missing safeguard, and whether a
// promotion falls between other promotions and the kills, most of all on a busy machine.
const mostAttempts = 3

// attempt repeats a negative control that found nothing, and repeats a run that showed
// nothing with another seed.
func attempt(ctx context.Context, s *scenario, seed uint64, worker, dir string) *result {
	for n := 1; ; n++ {
		r := runScenario(ctx, s, seed, worker, dir)
		r.Attempts = n
		if again := s.control() != "" || len(r.Why) == 1 && strings.HasSuffix(r.Why[0], shownNothing); r.OK || !again || n == mostAttempts || ctx.Err() != nil {
			return r
		}
		os.RemoveAll(dir)
		if s.control() == "" { // the same seed would show as little
			seed += 1000
		}
	}
}

// performRuns performs the runs, o.jobs at a time.
func performRuns(ctx context.Context, o *options, list []*scenario, stdout io.Writer) *totals {
	t := &totals{}
	begin := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, o.jobs)
	for i, s := range list {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			dir := filepath.Join(o.dir, fmt.Sprintf("%02d-%s", i+1, s.Name))
			r := attempt(ctx, s, o.seed+uint64(i), o.worker, dir)
			if r.OK && !o.keep {
				os.RemoveAll(dir)
			} else {
				r.Dir = dir
			}
			mu.Lock()
			defer mu.Unlock()
			t.addResult(r)
			printResults(stdout, o.json, r, r.format())
		})
	}
	wg.Wait()
	t.Seconds = time.Since(begin).Seconds()
	printResults(stdout, o.json, t, t.format())
	return t
}

func printResults(w io.Writer, asJSON bool, v any, line string) {
	if !asJSON {
		fmt.Fprintln(w, line)
		return
	}
	json.NewEncoder(w).Encode(v)
}
