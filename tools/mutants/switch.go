package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// plantedVariable is the variable of the environment with the number of the fault that a
// program with switches has.
const plantedVariable = "PLANTED_FAULT"

// writeSwitches writes files with all faults to dir: a function with a fault exists twice,
// and the variable of the environment chooses. So one build is enough for all faults. It
// returns the path of each file by the path of the file that it replaces.
func writeSwitches(root, dir string, all []planted) (map[string]string, error) {
	byFile := map[string]map[int][]planted{}
	for i := range all {
		edits, err := editsOf(all, i)
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			if byFile[e.file] == nil {
				byFile[e.file] = map[int][]planted{}
			}
			byFile[e.file][i] = append(byFile[e.file][i], e)
		}
	}
	written := map[string]string{}
	write := func(path, text string) error {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(written)))
		written[filepath.Join(root, path)] = to
		return os.WriteFile(to, []byte(text), 0o666)
	}
	for file, edits := range byFile {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		changed, name, err := switchFaults(string(text), edits)
		if err != nil {
			return nil, err
		}
		number := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar plantedFault = os.Getenv(%q)\n", name, plantedVariable)
		if err := write(file, changed); err != nil {
			return nil, err
		}
		path := filepath.Join(filepath.Dir(file), "planted_fault.go")
		if written[filepath.Join(root, path)] == "" {
			if err := write(path, number); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// splice is a change of a text.
type splice struct {
	at, length int
	text       string
}

// editsOf returns the changes of a fault: its own, and those of its parts.
func editsOf(all []planted, i int) (edits []planted, err error) {
	if all[i].old != "" {
		edits = append(edits, all[i])
	}
	edits = append(edits, all[i].also...)
	for _, part := range all[i].parts {
		k := slices.IndexFunc(all, func(p planted) bool { return p.name == part })
		if k < 0 {
			return nil, fmt.Errorf("%s: no fault has the name %q of its part", all[i].name, part)
		}
		edits = append(edits, all[k])
	}
	return edits, nil
}

// switchFaults adds a copy of the changed function for each fault of a file, and calls it.
func switchFaults(text string, faults map[int][]planted) (changed, pkg string, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.ParseComments)
	if err != nil {
		return "", "", err
	}
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	var splices []splice
	var copies strings.Builder
	named := map[*ast.FuncDecl]string{} // arguments of the call
	for _, n := range slices.Sorted(maps.Keys(faults)) {
		inFunction := map[*ast.FuncDecl][]splice{}
		for _, e := range faults[n] {
			if _, err := e.apply(text); err != nil {
				return "", "", err
			}
			at := strings.Index(text, e.old)
			f := enclosingFunction(files, parsed, at, at+len(e.old))
			if f == nil {
				return "", "", fmt.Errorf("%s: the text to replace is not in one function", e.name)
			}
			inFunction[f] = append(inFunction[f], splice{at, len(e.old), e.new})
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			edits := inFunction[f]
			if !ok || edits == nil {
				continue
			}
			from, id, body, end := offset(f.Pos()), offset(f.Name.Pos()), offset(f.Body.Lbrace)+1, offset(f.End())
			args, ok := named[f]
			if !ok {
				args = nameParameters(f, func(pos token.Pos, length int, name string) {
					splices = append(splices, splice{offset(pos), length, name})
				})
				named[f] = args
			}
			name := f.Name.Name + "Fault" + strconv.Itoa(n)
			splices = append(splices, splice{body, 0, fmt.Sprintf(" if plantedFault == %q { %s };", strconv.Itoa(n), callOf(f, name, args))})
			for i := range edits {
				edits[i].at -= from
			}
			edits = append(edits, splice{id - from, len(f.Name.Name), name})
			copies.WriteString("\n\n" + applySplices(text[from:end], edits))
		}
	}
	return applySplices(text, splices) + copies.String() + "\n", parsed.Name.Name, nil
}

// callOf returns statements that call a copy of a function instead of the rest of its body.
func callOf(f *ast.FuncDecl, name, args string) string {
	call := name + args
	if f.Recv != nil {
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// applySplices applies splices to a text, the last one first.
func applySplices(text string, all []splice) string {
	slices.SortStableFunc(all, func(a, b splice) int { return cmp.Compare(b.at, a.at) })
	for _, s := range all {
		text = text[:s.at] + s.text + text[s.at+s.length:]
	}
	return text
}

func enclosingFunction(files *token.FileSet, parsed *ast.File, from, to int) *ast.FuncDecl {
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Body != nil && files.Position(f.Body.Pos()).Offset < from && to <= files.Position(f.End()).Offset {
			return f
		}
	}
	return nil
}

// nameParameters returns the arguments for a call of a function with its own parameters.
// rename gives a name to a parameter or receiver without name.
func nameParameters(f *ast.FuncDecl, rename func(pos token.Pos, length int, name string)) string {
	var args []string
	name := func(list *ast.FieldList) {
		for _, field := range list.List {
			if len(field.Names) == 0 {
				id := ast.NewIdent("unnamed" + strconv.Itoa(len(args)))
				field.Names = append(field.Names, id)
				rename(field.Type.Pos(), 0, id.Name+" ")
			}
			for _, id := range field.Names {
				if id.Name == "_" {
					id.Name = "unnamed" + strconv.Itoa(len(args))
					rename(id.Pos(), 1, id.Name)
				}
				arg := id.Name
				if _, ok := field.Type.(*ast.Ellipsis); ok {
					arg += "..."
				}
				args = append(args, arg)
			}
		}
	}
	name(f.Type.Params)
	call := "(" + strings.Join(args, ", ") + ")"
	if f.Recv != nil {
		name(f.Recv)
	}
	return call
}
