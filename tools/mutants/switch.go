package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	byFile := map[string][]int{}
	for i, p := range all {
		byFile[p.file] = append(byFile[p.file], i)
	}
	written := map[string]string{}
	write := func(path, text string) error {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(written)))
		written[filepath.Join(root, path)] = to
		return os.WriteFile(to, []byte(text), 0o666)
	}
	for file, numbers := range byFile {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		changed, name, err := switchFaults(string(text), all, numbers)
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

// switchFaults adds a copy of its function for each fault of a file, and calls it.
func switchFaults(text string, all []planted, numbers []int) (changed, pkg string, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.ParseComments)
	if err != nil {
		return "", "", err
	}
	var splices []splice
	var copies strings.Builder
	named := map[*ast.FuncDecl]string{} // arguments of the call
	for _, n := range numbers {
		p := all[n]
		if _, err := p.apply(text); err != nil {
			return "", "", err
		}
		at := strings.Index(text, p.old)
		f := enclosingFunction(files, parsed, at, at+len(p.old))
		if f == nil {
			return "", "", fmt.Errorf("%s: the text to replace is not in one function", p.name)
		}
		offset := func(pos token.Pos) int { return files.Position(pos).Offset }
		from, body, end := offset(f.Pos()), offset(f.Body.Lbrace)+1, offset(f.End())
		args, ok := named[f]
		if !ok {
			args = nameParameters(f, func(pos token.Pos, length int, name string) {
				splices = append(splices, splice{offset(pos), length, name})
			})
			named[f] = args
		}
		name := f.Name.Name + "Fault" + strconv.Itoa(n)
		call := name + args
		if f.Recv != nil {
			call = f.Recv.List[0].Names[0].Name + "." + call
		}
		if f.Type.Results == nil {
			call += "; return"
		} else {
			call = "return " + call
		}
		splices = append(splices, splice{body, 0, fmt.Sprintf(" if plantedFault == %q { %s };", strconv.Itoa(n), call)})
		id := offset(f.Name.Pos())
		faulty := text[:at] + p.new + text[at+len(p.old):]
		copies.WriteString("\n\n" + text[from:id] + name + faulty[id+len(f.Name.Name):end+len(p.new)-len(p.old)])
	}
	slices.SortStableFunc(splices, func(a, b splice) int { return cmp.Compare(b.at, a.at) })
	changed = text
	for _, s := range splices {
		changed = changed[:s.at] + s.text + changed[s.at+s.length:]
	}
	return changed + copies.String() + "\n", parsed.Name.Name, nil
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
