package root_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
)

// Each command in an advice is valid up to the first comma, semicolon or colon: the command
// exists, and has the flags and the number of arguments.
func TestAdviceCanBeTyped(t *testing.T) {
	seen := 0
	for _, dir := range []string{"../../cli", "../../../internal/fleet"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				for _, text := range adviceIn(n) {
					for _, call := range callsIn(text) {
						seen++
						if err := checkCall(call); err != nil {
							t.Errorf("%s: %q: %v", files.Position(n.Pos()), call, err)
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 100 {
		t.Errorf("%d calls found, want those of all advice", seen)
	}
}

// adviceIn returns the advice texts in a node: the last argument of Fail, of ConnectHint and of
// a report's add, and assignments to next and similar variables.
func adviceIn(n ast.Node) (all []string) {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if slices.Contains([]string{"Fail", "ConnectHint", "add", "say"}, name) && len(n.Args) > 1 {
			all = append(all, textOf(n.Args[len(n.Args)-1]))
		}
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			name := ""
			switch to := to.(type) {
			case *ast.Ident:
				name = to.Name
			case *ast.SelectorExpr:
				name = to.Sel.Name
			}
			if slices.Contains([]string{"next", "Next", "again", "hint"}, name) && i < len(n.Rhs) {
				all = append(all, textOf(n.Rhs[i]))
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) && (strings.HasSuffix(name.Name, "Next") || strings.HasSuffix(name.Name, "Help") || strings.HasSuffix(name.Name, "Hint") || name.Name == "next") {
				all = append(all, textOf(n.Values[i]))
			}
		}
	}
	return all
}

var verb = regexp.MustCompile(`%[-+#0-9.]*[a-z]`)

// textOf returns the text of an expression, with X for unknown parts.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return verb.ReplaceAllString(text, "X")
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	case *ast.CallExpr:
		if s, is := e.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "Sprintf" {
			return textOf(e.Args[0])
		}
	}
	return "X"
}

// callsIn returns the program's commands in a text.
func callsIn(text string) (all []string) {
	for _, part := range strings.Split(text, "eusn-stream ")[1:] {
		if i := strings.IndexAny(part, ",;:()\n"); i >= 0 {
			part = part[:i]
		}
		all = append(all, strings.TrimSpace(part))
	}
	return all
}

// checkCall returns the reason why a command is refused before its work, or nil.
func checkCall(call string) error {
	words := strings.Fields(call)
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, ">") }); i >= 0 {
		words = words[:i]
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "..." })
	cmd, rest, err := root.Command().Find(words)
	if err != nil {
		return err
	}
	if slices.Contains(rest, "--help") {
		return nil
	}
	for i, w := range rest { // values of flags that are not texts
		if w == "X" || w == "N" {
			rest[i] = "1"
		}
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return validateArgs(cmd)
}

func validateArgs(cmd *cobra.Command) error { return cmd.ValidateArgs(cmd.Flags().Args()) }
