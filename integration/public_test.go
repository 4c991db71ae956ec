package integration

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// public are the packages that other modules can import, with their number of exported
// package-level names. From the first release on each name is a promise: a figure may
// rise only with a reason in the commit.
var public = map[string]int{
	"client":             14,
	"codec":              27,
	"edge":               6,
	"gpu":                15,
	"offline":            28, // RandomOptions, RandomReport, SegmentOptions, SegmentReport: options and reports of a training
	"offline/archive":    31,
	"pipeline":           27,
	"readout":            9, // RandomFeatures, SegmentWeights: parts of a readout in the model file
	"readout/novelty":    7, // Means: a part of a detector in the model file
	"readout/outcome":    50,
	"reservoir":          74, // Regimes, Segments: parts of Front in the model file, MaxSegments its bound; Choice: a part of Training
	"reservoir/classify": 5,
	"reservoir/cpu":      6,
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

// TestPublicExamples checks that the examples of public packages import no internal
// package, so that readers can copy them.
func TestPublicExamples(t *testing.T) {
	read := 0
	for name := range public {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name, "example_test.go"), nil, parser.ImportsOnly)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, imp := range f.Imports {
			if strings.Contains(imp.Path.Value, "/internal/") {
				t.Errorf("%s/example_test.go imports %s: other modules cannot: use public packages", name, imp.Path.Value)
			}
		}
	}
	if read < 5 {
		t.Errorf("%d files of examples found, want at least 5", read)
	}
}

// leaks are the types of internal packages that a public package shows, each with the
// reason. Delete an exception as soon as it isn't needed.
var leaks = map[string]string{
	"offline internal/detect.Report":  "figures of a training: other modules read its fields or JSON",
	"offline internal/quality.Report": "figures of an evaluation: other modules read its fields or JSON",
	"offline internal/quality.Sets":   "figures of an evaluation: other modules read its fields or JSON",
	"offline internal/fit.Plan":       "figures of a training: other modules read its fields or JSON",
	"offline internal/fit.Report":     "figures of a training: other modules read its fields or JSON",
	"offline internal/groups.Report":  "other modules read it as JSON",
	"pipeline internal/formats.Input": "other modules set its fields, such as Format, or leave it empty: messages are Arrow",
}

// TestPublicTypes checks that no public package shows a type of an internal package in
// parameters, results, exported fields, embedded types, aliases or variables.
func TestPublicTypes(t *testing.T) {
	found := map[string]bool{}
	for _, p := range loadPackages(t) {
		if _, ok := public[p.name]; !ok {
			continue
		}
		scope := p.types.Scope()
		for _, name := range scope.Names() {
			o := scope.Lookup(name)
			if !o.Exported() {
				continue
			}
			s := shown{in: p.types, seen: map[types.Type]bool{}}
			s.object(o)
			for at, hidden := range s.hidden {
				leak := p.name + " " + hidden
				found[leak] = true
				if leaks[leak] == "" {
					t.Errorf("%s.%s%s shows %s, which other modules cannot name: use a type of a public package, or add %q to leaks with a reason", p.name, name, at, hidden, leak)
				}
			}
		}
	}
	for leak := range leaks {
		if !found[leak] {
			t.Errorf("%s: no declaration shows the type: delete its exception", leak)
		}
	}
}

// shown collects the types of internal packages that a declaration shows.
type shown struct {
	in     *types.Package
	seen   map[types.Type]bool
	hidden map[string]string // by the place in the declaration
}

func (s *shown) object(o types.Object) {
	name, ok := o.(*types.TypeName)
	if !ok {
		s.visit("", o.Type())
		return
	}
	if alias, ok := name.Type().(*types.Alias); ok {
		s.visit("", alias.Rhs())
		return
	}
	s.declared("", name.Type().(*types.Named))
}

// declared visits the underlying type and the exported methods of a type of the package.
func (s *shown) declared(at string, named *types.Named) {
	if s.seen[named] {
		return
	}
	s.seen[named] = true
	s.visit(at, named.Underlying())
	for m := range named.Methods() {
		if m.Exported() {
			s.visit(at+"."+m.Name(), m.Type())
		}
	}
}

func (s *shown) visit(at string, typ types.Type) {
	switch typ := typ.(type) {
	case *types.Alias:
		s.visit(at, typ.Rhs())
	case *types.Named:
		s.named(at, typ)
	case interface{ Elem() types.Type }: // pointer, slice, array, channel, map
		if m, ok := typ.(*types.Map); ok {
			s.visit(at, m.Key())
		}
		s.visit(at, typ.Elem())
	case *types.Signature:
		for _, tuple := range []*types.Tuple{typ.Params(), typ.Results()} {
			for v := range tuple.Variables() {
				s.visit(at, v.Type())
			}
		}
	case *types.Struct:
		for f := range typ.Fields() {
			if f.Exported() {
				s.visit(at+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range typ.Methods() {
			if m.Exported() {
				s.visit(at+"."+m.Name(), m.Type())
			}
		}
	}
}

func (s *shown) named(at string, typ *types.Named) {
	for arg := range typ.TypeArgs().Types() {
		s.visit(at, arg)
	}
	o := typ.Obj()
	switch {
	case o.Pkg() == nil:
	case strings.HasPrefix(o.Pkg().Path(), module) && strings.Contains(o.Pkg().Path(), "/internal/"):
		if s.hidden == nil {
			s.hidden = map[string]string{}
		}
		s.hidden[at] = strings.TrimPrefix(o.Pkg().Path(), module) + "." + o.Name()
	case o.Pkg() == s.in && !o.Exported():
		s.declared(at, typ)
	}
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
