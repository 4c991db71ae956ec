package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// An operator searches docs/faults.md for the words in the log, so its quotes must match
// the program's messages. Texts are compared by their pairs of neighboring words. Three
// of five must be in a literal of the program: the rest are joints between literals, and
// errors of libraries.
func TestFaultsQuoted(t *testing.T) {
	said := map[[2]string]bool{}
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "integration/") {
			continue
		}
		for _, text := range literals(t, filepath.Join("..", name)) {
			for _, g := range pairs(text) {
				said[g] = true
			}
		}
	}
	document, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	quote := regexp.MustCompile("`([^`]*)`")
	checked := 0
	for number, line := range strings.Split(string(document), "\n") {
		says := ""
		if row := strings.Split(line, " | "); strings.HasPrefix(line, "| `") && len(row) >= 2 {
			says = row[0] // the words in the log
		} else if strings.Contains(line, "The log names") || strings.Contains(line, "log line begins with") {
			says = line
		}
		for _, q := range quote.FindAllStringSubmatch(says, -1) {
			for _, part := range strings.Split(q[1], "...") {
				all, found := pairs(part), 0
				if len(all) < 4 {
					continue
				}
				for _, g := range all {
					if said[g] {
						found++
					}
				}
				checked++
				if 5*found < 3*len(all) {
					t.Errorf("docs/faults.md:%d quotes what the program does not say: %q", number+1, strings.TrimSpace(part))
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d quotes found, want those of all faults", checked)
	}
}

// literals returns the strings of a source file.
func literals(t *testing.T, path string) (texts []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// Values in texts: a verb of fmt; in a logged message, a name, a number, a quoted text or
// the name of an attribute.
var (
	value = regexp.MustCompile(`%[-+#0-9.]*[a-z]|"[^"]*"|[a-z]+=|[^ ]*[0-9A-Z_][^ ]*`)
	word  = regexp.MustCompile(`[a-z']+`)
)

// pairs returns the neighboring words of a text, between its values.
func pairs(text string) (all [][2]string) {
	for _, part := range value.Split(text, -1) {
		words := word.FindAllString(part, -1)
		for i := range len(words) - 1 {
			all = append(all, [2]string(words[i:i+2]))
		}
	}
	return all
}
