// Command _asm generates the assembly of package kernel, one file per
// instruction set, and the offsets of the argument structure. go generate in
// the parent directory runs the command.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	name := flag.String("isa", "", "instruction set to generate: avx512 or avx2")
	offsets := flag.String("offsets", "", "write the offsets of the argument structures to this Go file and stop")
	flag.Parse()
	if *offsets != "" {
		if err := os.WriteFile(*offsets, offsetsFile(), 0o666); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	g, ok := map[string]isa{"avx512": avx512, "avx2": avx2}[*name]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown instruction set %q, want avx512 or avx2\n", *name)
		os.Exit(2)
	}
	ConstraintExpr("amd64,!purego")
	for _, s := range g.shapes {
		s.isa = &g
		s.steps()
		if !s.single {
			s.ring()
		} else {
			s.ringSingle()
		}
	}
	g.load()
	g.store()
	g.spread()
	g.collect()
	g.features()
	g.limited()
	g.scores(1)
	g.scores(8)
	for _, limits := range []bool{false, true} {
		g.apart(1, limits)
		g.apart(8, limits)
	}
	g.scale(1)
	g.scale(8)
	for _, n := range g.directions() {
		g.project(1, n)
		g.project(8, n)
	}
	g.within()
	g.prefetch()
	g.peak()
	for _, m := range []mixed{{cubic: true}, {}, {recurrent: true, cubic: true}, {recurrent: true}} {
		if g.masks {
			g.pairs(m)
		} else {
			g.mixed(m)
		}
	}
	if g.masks {
		g.together()
		cpuid()
	} else {
		g.mixedGather()
		g.mixedFeatures()
	}
	Generate()
}
