package integration

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// public are the packages that other modules can import, with their number of exported
// package-level names. From the first release on each name is a promise: a figure may
// rise only with a reason in the commit.
var public = map[string]int{
	"client":           14,
	"codec":            35,
	"codec/formats":    21,
	"edge":             6,
	"gpu":              15,
	"offline":          48,
	"offline/archive":  39,
	"offline/groups":   17,
	"pipeline":         89,
	"readout":          35,
	"readout/abstain":  6,
	"readout/adaptive": 9,
	"readout/early":    7,
	"readout/novelty":  19,
	"readout/outcome":  50,
	"readout/quality":  8,
	"reservoir":        104,
}

// TestPublic checks that no package becomes importable, and no name exported, by
// accident.
func TestPublic(t *testing.T) {
	found, names := map[string]bool{}, 0
	for _, p := range loadPackages(t) {
		if strings.Contains("/"+p.name+"/", "/internal/") || len(p.files) == 0 || p.files[0].ast.Name.Name == "main" || strings.HasPrefix(p.name, "integration") || strings.HasPrefix(p.name, "tools/") {
			continue
		}
		found[p.name] = true
		n := p.exported()
		names += n
		switch most, ok := public[p.name]; {
		case !ok:
			t.Errorf("package %s can be imported by other modules, with %d names: put it under internal/, or list it in integration/public_test.go", p.name, n)
		case n > most:
			t.Errorf("package %s exports %d names, listed are %d", p.name, n, most)
		case n < most:
			t.Errorf("package %s exports %d names, listed are %d: lower the figure", p.name, n, most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(public)) {
		if !found[name] {
			t.Errorf("package %s is listed and cannot be imported: delete its line", name)
		}
	}
	t.Logf("%d packages can be imported, with %d names", len(found), names)
}

// exported counts the exported names at package level, for all systems.
func (s *source) exported() int {
	names := map[string]bool{}
	count := func(name *ast.Ident) {
		if name.IsExported() {
			names[name.Name] = true
		}
	}
	for _, f := range s.files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					count(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						count(spec.Name)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							count(name)
						}
					}
				}
			}
		}
	}
	return len(names)
}
