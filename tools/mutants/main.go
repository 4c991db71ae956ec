// Command mutants plants faults in the assembly of the CPU kernels, one at a time, and
// reports the faults found by the tests (mutation testing).
//
//	make mutants                                        every engine; minutes each
//	go run ./tools/mutants -engine avx512 -each 5 -seed 2
//	go run ./tools/mutants -engine neon -kernels mixedTaps -kinds unfuse
//
// A fault is a changed instruction of the generated assembly: removed, with exchanged
// operands, with another constant, register or operation, or a fused multiply-add with a
// rounded product. The compiler gets the changed file as an overlay, so the tree does not
// change. The engines' conformance suite looks for each fault; if the suite passes, the
// kernels' own tests run. A run with a crash or without an end has found the fault as
// well.
//
// Option -protocol plants the faults of faults.go: in the data stored by the stage and
// its companions, and in the order of stores. Each fault names its test, which must fail.
//
//	make protocol-mutants
//	go run ./tools/mutants -protocol -names resize
//
// Option -simulate plants the faults of simulated.go, and the faults of faults.go that
// concern the live stage, promotion and resize. A history of tools/simulate must find
// each fault; the report about a fault is a line of JSON, and a row of the table
// docs/results/simulated-faults.csv. All faults are in one program, each behind a switch.
// together.go plants a fault with the rules that hide its effect.
// An interrupted run continues with the faults that have no row of the same commit.
//
//	make simulate-mutants
//	go run ./tools/mutants -simulate -names promotion -jobs 2
//
// Exit codes: 0 every fault was found; 1 a fault was not found: a change without an
// effect on results, or a missing test; 2 the faults could not be tested.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.engine, "engine", "avx2", "engine to spoil: avx2, avx512 or neon (under qemu-aarch64 elsewhere)")
	kernels := flag.String("kernels", "^(mixed|scale|project|together|apart|limitedApart)", "regular expression of the kernels' names")
	flag.StringVar(&o.kinds, "kinds", strings.Join(kindNames(), ","), "kinds of faults, with commas")
	flag.IntVar(&o.each, "each", 3, "faults of each kind in each kernel")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the choice of instructions")
	protocol := flag.Bool("protocol", false, "plant the faults of the protocol instead of the faults of the kernels")
	simulate := flag.Bool("simulate", false, "plant faults that the histories of tools/simulate must find")
	names := flag.String("names", "", "with -protocol or -simulate: regular expression of the faults' names")
	var s simulating
	flag.IntVar(&s.jobs, "jobs", runtime.NumCPU(), "with -simulate: faults at a time")
	flag.DurationVar(&s.budget, "cpu", 2*time.Minute, "with -simulate: processor time for the histories of a fault")
	flag.StringVar(&s.seeds, "seeds", "1-100000", "with -simulate: seeds of the histories")
	flag.StringVar(&s.table, "table", "docs/results/simulated-faults.csv", "with -simulate: table of the results, written after each fault; faults with a row of the same commit are skipped")
	flag.BoolVar(&s.repeat, "repeat", false, "with -simulate: do not skip faults")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var lived int
	var err error
	switch {
	case *simulate:
		if s.names, err = regexp.Compile(*names); err == nil {
			lived, err = s.simulateFaults(ctx, os.Stdout)
		}
	case *protocol:
		var chosen *regexp.Regexp
		if chosen, err = regexp.Compile(*names); err == nil {
			lived, err = plantAll(ctx, os.Stdout, chosen)
		}
	default:
		if o.kernels, err = regexp.Compile(*kernels); err == nil {
			lived, err = o.run(ctx, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if lived > 0 {
		os.Exit(1)
	}
}

type options struct {
	engine, kinds string
	kernels       *regexp.Regexp
	each          int
	seed          uint64
}

// parseKinds parses a list of kinds of faults.
func parseKinds(list string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for kind := range strings.SplitSeq(list, ",") {
		if !slices.Contains(kindNames(), kind) {
			return nil, fmt.Errorf("no kind of fault %q: want %s", kind, strings.Join(kindNames(), ", "))
		}
		chosen[kind] = true
	}
	return chosen, nil
}

// run plants the faults, writes a line for each fault and a table, and returns the number
// of faults that no test has found.
func (o options) run(ctx context.Context, out io.Writer) (int, error) {
	b, err := newBench(o.engine)
	if err != nil {
		return 0, err
	}
	defer b.close()
	chosen, err := parseKinds(o.kinds)
	if err != nil {
		return 0, err
	}
	var planted, bySuite, byKernel int
	for _, k := range kernelsOf(b.text) {
		if !o.kernels.MatchString(k.name) {
			continue
		}
		if err := b.checkHealthy(ctx, k.name); err != nil {
			return 0, err
		}
		for _, kind := range kinds {
			if !chosen[kind.name] {
				continue
			}
			faults := k.faults(kind)
			rng := rand.New(rand.NewPCG(o.seed, uint64(k.first)))
			rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
			for left := o.each; left > 0 && len(faults) > 0; faults = faults[1:] {
				f := faults[0]
				got, err := b.plant(ctx, k.name, f)
				if err != nil {
					return 0, err
				}
				if !got.assembled {
					continue
				}
				left, planted = left-1, planted+1
				verdict := "found"
				switch {
				case got.suite:
					bySuite++
				case got.kernel:
					verdict = "found only by the kernels' tests"
					byKernel++
				default:
					verdict = "LIVED"
				}
				fmt.Fprintf(out, "%s: %s %s, line %d: %s -> %s\n", verdict, k.name, kind.name, f.line, f.old, f.new)
			}
		}
	}
	if planted == 0 {
		return 0, fmt.Errorf("no fault planted: no kernel of %s has such a name and instruction", o.engine)
	}
	fmt.Fprintf(out, "%s: %d faults planted, %d found (%d by the conformance suite, %d only by the kernels' tests)\n", o.engine, planted, bySuite+byKernel, bySuite, byKernel)
	return planted - bySuite - byKernel, nil
}
