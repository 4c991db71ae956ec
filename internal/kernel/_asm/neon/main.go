// Command neon generates package kernel's assembly for arm64, which avo does
// not support. go generate in the package's directory runs the command.
//
// The command writes the text of Go's assembler, which lacks most vector
// operations on floating-point numbers; such operations are written as words,
// with their Arm mnemonic next to them. A kernel's vector is eight lanes: a
// pair of registers, so that the tanh's tables are loaded once for both.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("out", "", "assembly file to write")
	stubs := flag.String("stubs", "", "Go file with the declarations to write")
	flag.Parse()
	var f file
	for _, s := range []shape{
		{name: "Wide", pairs: 2, rows: 5},
		{name: "Narrow", pairs: 1, rows: 5},
		{name: "Single", pairs: 1, rows: 12, single: true},
	} {
		f.steps(s)
		if !s.single {
			f.ring(s)
		}
	}
	f.load()
	f.store()
	f.spread()
	f.collect()
	f.prefetch()
	f.features()
	f.limited()
	f.scores(1)
	f.scores(8)
	f.scale(1)
	f.scale(8)
	f.project(1)
	f.project(8)
	f.within()
	f.peak()
	for _, m := range []mixed{{false, true}, {false, false}, {true, true}, {true, false}} {
		f.mixed(m)
	}
	f.mixedGather()
	f.mixedFeatures()
	if err := f.write(*out, *stubs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
