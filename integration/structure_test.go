package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// Limits of packages and functions; larger figures need a reason.
const (
	maxFiles      = 30 // of a package
	maxCycle      = 10 // files that use each other's names in a circle
	maxComplexity = 15 // of a function: number of branches, plus one
	maxLines      = 80 // of a function
)

// TestStructure checks that a reader can understand packages one part at a time: no large
// package, no large group of mutually dependent files, no long or branching function, and
// no struct inside another struct unless made for embedding. Exceptions are data in
// structure_exceptions_test.go. go test -v prints the figures of each package.
func TestStructure(t *testing.T) {
	packages := loadPackages(t)
	files, cycles := ceilings("files", maxFiles, fileExceptions), ceilings("files in a circle", maxCycle, cycleExceptions)
	branches, lines := ceilings("branches", maxComplexity, complexityExceptions), ceilings("lines", maxLines, lineExceptions)
	embedded := map[string]bool{}
	for _, p := range packages {
		group := p.largestCycle()
		files.compareFigure(t, p.name, len(p.files), nil)
		cycles.compareFigure(t, p.name, len(group), group)
		for _, f := range p.functions() {
			branches.compareFigure(t, p.name+"."+f.name, f.complexity, nil)
			lines.compareFigure(t, p.name+"."+f.name, f.lines, nil)
		}
		for _, s := range p.structs() {
			name := p.name + "." + s.name
			for _, inner := range s.embedded {
				pair := name + ": " + inner
				embedded[pair], embedded[inner] = true, true
				if mixins[inner] == "" && embeddings[pair] == "" {
					t.Errorf("%s embeds %s: make it a field with a name, or say in integration/structure_exceptions_test.go why it is embedded", name, inner)
				}
			}
		}
	}
	for _, c := range []*ceiling{files, cycles, branches, lines} {
		c.unused(t)
	}
	for _, list := range []map[string]string{mixins, embeddings} {
		for name := range list {
			if !embedded[name] {
				t.Errorf("the exception for %q is about something that is not there: delete it", name)
			}
		}
	}
	t.Log("\n" + table(packages))
}

// limit is an exception: a figure that may only fall, and the reason.
type limit struct {
	atMost int
	why    string
}

// ceiling compares figures with a common limit, or with the limit of an exception.
type ceiling struct {
	of     string
	common int
	own    map[string]limit
	seen   map[string]bool
}

func ceilings(of string, common int, own map[string]limit) *ceiling {
	return &ceiling{of, common, own, map[string]bool{}}
}

func (c *ceiling) compareFigure(t *testing.T, name string, n int, details []string) {
	t.Helper()
	own, excepted := c.own[name]
	c.seen[name] = true
	switch {
	case !excepted && n > c.common:
		t.Errorf("%s has %d %s, at most %d are allowed without a reason %s", name, n, c.of, c.common, strings.Join(details, " "))
	case excepted && n > own.atMost:
		t.Errorf("%s has %d %s, at most %d are allowed, and the figure may only fall (%s) %s", name, n, c.of, own.atMost, own.why, strings.Join(details, " "))
	case excepted && n <= c.common:
		t.Errorf("%s has %d %s: its exception is not needed any more, delete it", name, n, c.of)
	case excepted && n < own.atMost:
		t.Logf("%s has %d %s: lower its ceiling of %d", name, n, c.of, own.atMost)
	}
}

func (c *ceiling) unused(t *testing.T) {
	t.Helper()
	for name := range c.own {
		if !c.seen[name] {
			t.Errorf("the exception for the %s of %s is about something that is not there: delete it", c.of, name)
		}
	}
}

// source is a package as written in its files.
type source struct {
	name  string       // within the module
	files []sourceFile // written by hand, for all systems
	built []*ast.File  // for this system
	info  *types.Info
	types *types.Package
	fset  *token.FileSet

	examples int
}

type sourceFile struct {
	lines int
	ast   *ast.File
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// loadPackages parses the module's packages once, and resolves their names.
func loadPackages(t *testing.T) []*source {
	t.Helper()
	fset, exports := token.NewFileSet(), map[string]string{}
	var all []*source
	// The importer reads the compiler's export data of each import, which the tests had
	// built anyway.
	load := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range listSources(t) {
		exports[p.ImportPath] = p.Export // imports come first
		if p.Module == nil || !p.Module.Main {
			continue
		}
		s := &source{name: strings.TrimPrefix(p.ImportPath, module), fset: fset}
		s.readFiles(t, p)
		s.resolve(t, p.ImportPath, load, len(p.CgoFiles) > 0)
		all = append(all, s)
	}
	if len(all) < 30 {
		t.Fatalf("%d packages found, want all of the module", len(all))
	}
	return all
}

type listedSource struct {
	ImportPath, Dir, Export           string
	GoFiles, CgoFiles, IgnoredGoFiles []string
	TestGoFiles, XTestGoFiles         []string
	Module                            *struct{ Main bool }
}

func listSources(t *testing.T) []listedSource {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Module", module+"...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var list []listedSource
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedSource
		if err := d.Decode(&p); err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

var example = regexp.MustCompile(`(?m)^func Example\w*\(\) \{`)

func (s *source) readFiles(t *testing.T, p listedSource) {
	t.Helper()
	content := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for i, names := range [][]string{p.GoFiles, p.CgoFiles, p.IgnoredGoFiles} {
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text := content(name)
			f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if i < 2 {
				s.built = append(s.built, f)
			}
			if !generated.Match(text) {
				s.files = append(s.files, sourceFile{bytes.Count(text, []byte("\n")), f})
			}
		}
	}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		s.examples += len(example.FindAll(content(name), -1))
	}
}

// resolve resolves the names in the files that are built here.
func (s *source) resolve(t *testing.T, path string, load types.Importer, cgo bool) {
	t.Helper()
	conf := types.Config{Importer: load, FakeImportC: true, Error: func(err error) {
		if !cgo { // declarations in C are not known here
			t.Errorf("%v", err)
		}
	}}
	s.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	s.types, _ = conf.Check(path, s.fset, s.built, s.info) // errors were reported above
}

// uses returns, for each file, the files that declare its names: types, functions,
// variables, constants, methods and fields.
func (s *source) uses() map[string][]string {
	uses := map[string][]string{}
	for name, object := range s.info.Uses {
		if object.Pkg() != s.types {
			continue
		}
		from, to := s.file(name.Pos()), s.file(object.Pos())
		if from != to && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return uses
}

func (s *source) file(p token.Pos) string { return filepath.Base(s.fset.File(p).Name()) }

// largestCycle returns the largest group of files in which each file leads to every other
// file (Tarjan's strongly connected components); empty if there is no such group.
func (s *source) largestCycle() []string {
	var (
		uses      = s.uses()
		order     = map[string]int{} // of the first visit
		lowest    = map[string]int{} // first visit of a node reachable on the stack
		stack     []string
		largest   []string
		visit     func(f string)
		stackHas  = func(f string) bool { return slices.Contains(stack, f) }
		component = func(f string) []string {
			i := slices.Index(stack, f)
			c := slices.Clone(stack[i:])
			stack = stack[:i]
			return c
		}
	)
	visit = func(f string) {
		order[f] = len(order) + 1
		lowest[f] = order[f]
		stack = append(stack, f)
		for _, to := range uses[f] {
			if order[to] == 0 {
				visit(to)
				lowest[f] = min(lowest[f], lowest[to])
			} else if stackHas(to) {
				lowest[f] = min(lowest[f], order[to])
			}
		}
		if lowest[f] == order[f] {
			if c := component(f); len(c) > max(1, len(largest)) {
				largest = c
			}
		}
	}
	for _, f := range slices.Sorted(maps.Keys(uses)) {
		if order[f] == 0 {
			visit(f)
		}
	}
	slices.Sort(largest)
	return largest
}

// function is a function's size.
type function struct {
	name       string // with its receiver's type: "Type.name"
	lines      int
	complexity int
}

func (s *source) functions() (all []function) {
	for _, f := range s.files {
		for _, d := range f.ast.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				all = append(all, function{name, 1 + s.fset.Position(d.End()).Line - s.fset.Position(d.Pos()).Line, complexity(d)})
			}
		}
	}
	return all
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr: // of a generic type
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// complexity returns the cyclomatic complexity of a function, with its function literals
// (McCabe 1976: one, and one more for each branch and each && and ||).
func complexity(d *ast.FuncDecl) int {
	n := 1
	ast.Inspect(d, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// structType is a struct in a declaration.
type structType struct {
	name     string
	embedded []string // structs with behavior, as package.Type
}

func (s *source) structs() []structType {
	var list []structType
	add := func(name string, n ast.Node) {
		if st := s.structsIn(name, n); len(st.embedded) > 0 {
			list = append(list, st)
		}
	}
	for _, f := range s.files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(d.Name.Name+"()", d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name.Name, spec)
					case *ast.ValueSpec:
						add(spec.Names[0].Name, spec)
					}
				}
			}
		}
	}
	return list
}

func (s *source) structsIn(name string, n ast.Node) structType {
	st := structType{name: name}
	ast.Inspect(n, func(n ast.Node) bool {
		if n, ok := n.(*ast.StructType); ok {
			for _, f := range n.Fields.List {
				if inner := s.machine(f.Type); len(f.Names) == 0 && inner != "" {
					st.embedded = append(st.embedded, inner)
				}
			}
		}
		return true
	})
	return st
}

// machine returns the name of an embedded struct with more than fields: embedded by
// pointer, or with methods that change it. It is empty for records, interfaces and other
// types. A plain record is a mixin: embedding adds its fields and nothing else.
func (s *source) machine(e ast.Expr) string {
	t := s.info.Types[e].Type
	if t == nil {
		return "" // in a file for another system
	}
	pointer, shared := t.(*types.Pointer)
	if shared {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return ""
	}
	_, isStruct := named.Underlying().(*types.Struct)
	changes := types.NewMethodSet(types.NewPointer(named)).Len() > types.NewMethodSet(named).Len()
	if !isStruct || !shared && !changes {
		return ""
	}
	return strings.TrimPrefix(named.Obj().Pkg().Path(), module) + "." + named.Obj().Name()
}

// table returns the figures of each package and of the module.
func table(packages []*source) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "package\tfiles\tlines a file\tlines a function\tmost branches\tlargest cycle\tExamples")
	fmt.Fprintln(w, "\t\tmedian/largest\tmedian/p90/largest\tof a function\tof files\t")
	all := &source{name: "all (the largest of each)"}
	files, cycle := 0, 0
	for _, p := range slices.SortedFunc(slices.Values(packages), func(a, b *source) int { return cmp.Compare(a.name, b.name) }) {
		c := len(p.largestCycle())
		p.row(w, len(p.files), c)
		files, cycle = max(files, len(p.files)), max(cycle, c)
		all.fset, all.files, all.examples = p.fset, append(all.files, p.files...), all.examples+p.examples
	}
	all.row(w, files, cycle)
	w.Flush()
	return b.String()
}

func (s *source) row(w io.Writer, files, cycle int) {
	var fileLines, lines []int
	for _, f := range s.files {
		fileLines = append(fileLines, f.lines)
	}
	most := 0
	for _, f := range s.functions() {
		lines, most = append(lines, f.lines), max(most, f.complexity)
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d\n", s.name, files, quantiles(fileLines, false), quantiles(lines, true), most, cycle, s.examples)
}

// quantiles returns the median, with p90 the 90th percentile, and the largest value.
func quantiles(v []int, p90 bool) string {
	if len(v) == 0 {
		return "-"
	}
	slices.Sort(v)
	s := fmt.Sprint(v[len(v)/2])
	if p90 {
		s += fmt.Sprint("/", v[len(v)*9/10])
	}
	return s + fmt.Sprint("/", v[len(v)-1])
}
