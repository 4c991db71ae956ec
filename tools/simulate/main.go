// Command simulate runs histories of a job with faults, each inside one process with a
// virtual clock, and repeats a history by its seed.
//
//	make simulate SEEDS=1-1000
//	go run ./tools/simulate -seeds 17 -log
//	go run ./tools/simulate -seeds 1-100 -twice
//	go run ./tools/simulate -seeds 1-100 -guests gateway,alarms,recorder,learner
//	go run ./tools/simulate -seeds 17 -shrink
//	make simulate-corpus
//	go run ./tools/simulate -totals docs/results/histories.csv OUTPUT... > sum.csv
//
// A history is a job with a real NATS server, its workers and its producers in a bubble of
// testing/synctest (integration/chaos, files simulate_*_test.go). Everything that could differ
// between two runs is replaced in the toolchain's own files by an overlay for the
// compiler (overlay.go); the toolchain itself does not change. The program prints a line for each failed
// history with its seed, its faults and the first error, then a summary as JSON.
//
// A history has one server. The routes of a cluster use sockets, and the clock of a bubble does not
// advance while a goroutine waits for a socket: three servers remain to the processes of
// integration/chaos.
//
// A seed draws a plan: a scenario and faults with their times. Option -shrink removes
// faults of a failed plan as long as its first error remains, and prints the smallest
// plan as JSON. A seed draws another plan after a change of the generator. So the plans
// that once found an error are kept in integration/chaos/testdata/simulated.json (make
// simulate-corpus, option -plans); the order of goroutines in these histories can change
// with the program.
//
// Exit codes: 0 all histories passed; 1 a history failed, or two runs of a seed differ; 2
// the histories could not be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
)

func main() {
	var o options
	flag.StringVar(&o.seeds, "seeds", "1-20", "seeds of the histories: a number or a range, such as 1-1000")
	flag.StringVar(&o.plans, "plans", "", "run the histories of a file of plans instead of seeds")
	flag.BoolVar(&o.shrink, "shrink", false, "print the smallest plan of each failed history that has the same first error")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "histories at a time")
	flag.BoolVar(&o.twice, "twice", false, "run each seed twice, the second time in another order, and compare the traces")
	flag.BoolVar(&o.log, "log", false, "print the logs of the workers and the faults (one history at a time)")
	flag.DurationVar(&o.limit, "limit", defaultLimit, "real time after which a history counts as hung")
	flag.StringVar(&o.binary, "binary", "", "test binary of an earlier run with -keep; empty: build it")
	flag.StringVar(&o.keep, "keep", "", "keep the test binary here")
	flag.BoolVar(&o.noinline, "noinline", false, "compile without inlining: less work for a few histories")
	flag.StringVar(&o.unsafe, "unsafe", "", "disable a safeguard of the workers: the histories must find it (see pipeline.Worker.Unsafe)")
	flag.StringVar(&o.guests, "guests", "", "processes next to the stage that each history has: gateway, alarms, recorder, learner, backfill; empty: the seed decides")
	flag.Var(&o.replace, "replace", "compile another file instead of a file of the project, OLD=NEW; may be repeated")
	flag.BoolVar(&o.first, "first", false, "stop at the first failed history")
	flag.DurationVar(&o.budget, "cpu", 0, "start no history after the histories have used this processor time; 0 = no limit")
	flag.BoolVar(&o.each, "each", false, "print a line for each history")
	totals := flag.Bool("totals", false, "print the sum of earlier runs as CSV: the arguments are files of their output, and previous sums (.csv)")
	flag.Parse()
	if *totals {
		if err := printTotals(os.Stdout, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "simulate:", err)
			os.Exit(2)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := o.runSeeds(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}
