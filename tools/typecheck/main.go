// Typecheck checks that the program and all its imports compile for other systems,
// without compiling them: parsing and types, from source. On a fresh machine the check
// takes a tenth of the time of a build. It cannot find errors of the linker or the
// assembler; make dist builds the programs themselves.
//
//	go run ./tools/typecheck windows/amd64 darwin/arm64 linux/386/purego
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: typecheck SYSTEM/PROCESSOR[/TAG]...")
		os.Exit(2)
	}
	here, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
	failed := false
	for _, target := range os.Args[1:] {
		n, wrong, err := checkTarget(here, target)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, w := range wrong {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, w)
		}
		failed = failed || len(wrong) > 0
		if len(wrong) == 0 {
			fmt.Printf("%s: %d packages have correct types\n", target, n)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// checkTarget loads the packages of a module for a target, and all their imports. It
// returns the number of packages, and the errors.
func checkTarget(dir, target string) (n int, wrong []string, err error) {
	system, processor, ok := strings.Cut(target, "/")
	processor, tag, _ := strings.Cut(processor, "/")
	if !ok {
		return 0, nil, fmt.Errorf("want SYSTEM/PROCESSOR")
	}
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes,
		Dir:        dir,
		Env:        append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
		BuildFlags: []string{"-tags=" + tag},
	}
	roots, err := packages.Load(config, "./cmd/...", "./reservoir/...", "./internal/kernel", "./internal/dense", "./internal/offline/baseline")
	if err != nil {
		return 0, nil, err
	}
	packages.Visit(roots, nil, func(p *packages.Package) {
		n++
		for _, e := range p.Errors {
			wrong = append(wrong, e.Error())
		}
	})
	if n == 0 {
		return 0, nil, fmt.Errorf("no packages in %s", dir)
	}
	return n, wrong, nil
}
