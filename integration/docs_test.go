package integration

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// documents are the project's Markdown files by path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, name := range tracked(t, "*.md") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		docs[name] = string(text)
	}
	if len(docs) < 10 {
		t.Fatalf("%d documents found, want all of them", len(docs))
	}
	return docs
}

// tracked returns the files of git and new files, by path from the root.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "-co", "--exclude-standard", "--"}, patterns...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := slices.DeleteFunc(strings.Split(string(out), "\x00"), func(name string) bool {
		if name == "" {
			return true
		}
		_, err := os.Stat(filepath.Join("..", name)) // a removed, uncommitted file
		return err != nil
	})
	return slices.Compact(files)
}

var (
	mdLink  = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors returns GitHub's anchors of a document's headings.
func anchors(text string) map[string]bool {
	set := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r > 127:
				return r
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.ToLower(m[1]))
		set[name] = true
	}
	return set
}

// Each link of a document to a file, or to a heading, has a target.
func TestLinks(t *testing.T) {
	docs := documents(t)
	links := 0
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		for _, m := range mdLink.FindAllStringSubmatch(fenced.ReplaceAllString(docs[name], ""), -1) {
			link := m[1]
			if strings.Contains(link, "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(link, "#")
			to := name
			if path != "" {
				to = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s: link to %s: no such file", name, link)
				continue
			}
			if anchor != "" && !anchors(docs[to])[anchor] {
				t.Errorf("%s: link to %s: %s has no such heading", name, link, to)
			}
		}
	}
	if links < 40 {
		t.Errorf("%d links found, want all of the documents'", links)
	}
}

// Documents, sources and configurations name only existing documents.
func TestDocsNamed(t *testing.T) {
	named := regexp.MustCompile(`\b(docs/[A-Za-z0-9_./-]+\.(?:md|sh|py|mjs|svg))\b`)
	for _, name := range tracked(t, "*.md", "*.go", "*.yaml", "*.sh", "*.mjs", "*.py", "Makefile", ".ci/run") {
		if name == "CHANGELOG.md" { // describes the past
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}

// Each function that ARCHITECTURE.md names after a file is declared in that file.
func TestDocsFunctions(t *testing.T) {
	placed := regexp.MustCompile("`([\\w/]+\\.go)` \\(((?:`\\w+`(?:, )?)+)\\)")
	sources := tracked(t, "*.go")
	count := 0
	for _, m := range placed.FindAllStringSubmatch(documents(t)["ARCHITECTURE.md"], -1) {
		for name := range strings.SplitSeq(m[2], ", ") {
			count++
			declared := regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?` + strings.Trim(name, "`") + `\(`)
			if !slices.ContainsFunc(sources, func(path string) bool {
				text, _ := os.ReadFile(filepath.Join("..", path))
				return strings.HasSuffix("/"+path, "/"+m[1]) && declared.Match(text)
			}) {
				t.Errorf("ARCHITECTURE.md names %s in %s, which does not declare it", name, m[1])
			}
		}
	}
	if count < 10 {
		t.Errorf("%d functions found, want all of the table", count)
	}
}

// commandLine matches a documented call of the program, without shell syntax.
var (
	commandLine = regexp.MustCompile("(?m)(?:^ {4,}|^\\$ |`|&& |\\| )(?:\\./|\\.\\./)?(?:go run \\./cmd/)?eusn-stream((?: [^\\n`|#>&;)]+)?)")
	codeLine    = regexp.MustCompile(`(?m)^ {4,}.*$`)
	quotedWord  = regexp.MustCompile(`'[^'\n]*'`)
	flagWord    = regexp.MustCompile(`^--?[a-z][a-z0-9-]*`)
	command     = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// Each documented command exists and accepts the documented flags.
func TestDocsCommands(t *testing.T) {
	help := map[string]string{}
	helpOf := func(path []string) string {
		key := strings.Join(path, " ")
		if _, known := help[key]; !known {
			var out, errOut bytes.Buffer
			if code := root.Run(t.Context(), append([]string{"help"}, path...), &out, &errOut); code != 0 {
				t.Errorf("eusn-stream help %s: exit code %d: %s", key, code, errOut.Bytes())
			}
			help[key] = out.String()
		}
		return help[key]
	}
	checked := 0
	for name, text := range documents(t) {
		if name == "CHANGELOG.md" { // describes the past
			continue
		}
		text = strings.ReplaceAll(text, "\\\n", " ") // a continued line
		text = codeLine.ReplaceAllStringFunc(text, func(line string) string { return quotedWord.ReplaceAllString(line, "VALUE") })
		var lines [][]string
		for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
			for line := range strings.SplitSeq(strings.ReplaceAll(m[1], "\n", " "), " -- ") { // followed by another command, of a service
				lines = append(lines, []string{m[0], line})
			}
		}
		for _, m := range lines {
			words := strings.Fields(m[1])
			path := documentedCommand(words, helpOf)
			if n := len(path); n < len(words) && command.MatchString(words[n]) && subcommands(helpOf(path)) != "" {
				t.Errorf("%s: eusn-stream%s: there is no command %s", name, m[1], words[n])
				continue
			}
			checked++
			for _, w := range words[len(path):] {
				if w == "..." || !flagWord.MatchString(w) {
					continue
				}
				f := flagWord.FindString(w)
				if !regexp.MustCompile(`(?m)(^|[ ,])` + regexp.QuoteMeta(f) + `([ ,]|$)`).MatchString(flagsOf(helpOf(path))) {
					t.Errorf("%s: eusn-stream%s: %s has no flag %s", name, m[1], strings.Join(path, " "), f)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d commands found in the documents, want all of them", checked)
	}
}

// documentedCommand returns the longest prefix of words that is a command.
func documentedCommand(words []string, helpOf func([]string) string) (path []string) {
	for _, w := range words {
		if !command.MatchString(w) {
			break
		}
		hidden := w == "service" && len(path) == 0 // in the help only on Windows
		if !hidden && !regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(w)+` `).MatchString(subcommands(helpOf(path))) {
			break
		}
		path = append(path, w)
	}
	return path
}

func subcommands(help string) string {
	var b strings.Builder
	usage, in := false, false
	for line := range strings.Lines(help) {
		title := strings.TrimSpace(line)
		switch {
		case title == "":
		case !strings.HasPrefix(line, " "): // a title; the groups of commands come after the usage
			in = usage && strings.HasSuffix(title, ":") && !slices.Contains([]string{"Aliases:", "Examples:", "Flags:", "Global Flags:"}, title)
			usage = usage || title == "Usage:"
		case in:
			b.WriteString(strings.Replace(line, "  eusn-stream ", "  ", 1))
		}
	}
	return b.String()
}

func flagsOf(help string) string {
	_, flags, _ := strings.Cut(help, "Flags:\n")
	return flags
}

// Each test in a documented command exists in a package of the command, and so does each
// task of the Makefile.
func TestDocsTests(t *testing.T) {
	goTest := regexp.MustCompile("go test ([^`\n]*)")
	runName := regexp.MustCompile(`-(?:run|bench|fuzz)[ =]'?"?([A-Za-z0-9_|]+)`)
	makeTask := regexp.MustCompile("(?:^ {4}|`)make ([a-z0-9-]+)")
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`func (?:Test|Benchmark|Fuzz)(\w+)|"(\w+)"`) // subtests are named by strings
	tests := map[string][]string{}                                           // by folder
	for _, name := range tracked(t, "*_test.go") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range names.FindAllSubmatch(text, -1) {
			dir := filepath.Dir(name)
			tests[dir] = append(tests[dir], string(m[1])+string(m[2]))
		}
	}
	exists := func(name, packages string) bool {
		for _, kind := range []string{"Test", "Benchmark", "Fuzz"} {
			name = strings.TrimPrefix(name, kind)
		}
		for dir, names := range tests {
			if !slices.ContainsFunc(strings.Fields(packages), func(p string) bool {
				p = strings.Trim(p, `)"';,`)
				above, all := strings.CutSuffix(p, "/...")
				return p == "./"+dir || all && strings.HasPrefix("./"+dir+"/", above+"/")
			}) {
				continue
			}
			if slices.ContainsFunc(names, func(test string) bool { return strings.Contains(test, name) }) {
				return true
			}
		}
		return false
	}
	for name, text := range documents(t) {
		for _, m := range goTest.FindAllStringSubmatch(text, -1) {
			for _, list := range runName.FindAllStringSubmatch(m[1], -1) {
				for _, one := range strings.Split(list[1], "|") {
					if one != "xxx" && one != "NAME" && !exists(one, m[1]) { // no test, any test
						t.Errorf("%s: go test %s: no package there has a test %s", name, m[1], one)
					}
				}
			}
			for _, w := range strings.Fields(m[1]) {
				if strings.HasPrefix(w, "./") && !strings.Contains(w, "...") {
					if _, err := os.Stat(filepath.Join("..", strings.Trim(w, `)"';,`))); err != nil {
						t.Errorf("%s: go test %s: no package %s", name, m[1], w)
					}
				}
			}
		}
		for _, m := range makeTask.FindAllStringSubmatch(text, -1) {
			if !bytes.Contains(makefile, []byte("\n"+m[1]+":")) {
				t.Errorf("%s: make %s: no such task", name, m[1])
			}
		}
	}
}

// The README's Go program is the Example of go test.
func TestDocsExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../reservoir/classify/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "\n```go\n")
	block, _, ends := strings.Cut(block, "\n```\n")
	if !found || !ends {
		t.Fatal("README.md has no Go program")
	}
	for line := range strings.Lines(block) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), " // ")
		if !strings.Contains(string(example), "\n\t"+strings.Repeat("\t", strings.Count(line, "\t"))+code+"\n") {
			t.Errorf("README.md shows %q, which no Example of package classify runs", code)
		}
	}
}

// The reference has every command in the help, and every flag of a prediction with its
// bit.
func TestDocsReference(t *testing.T) {
	text, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	var each func(path []string)
	each = func(path []string) {
		var out bytes.Buffer
		if code := root.Run(t.Context(), append([]string{"help"}, path...), &out, &out); code != 0 {
			t.Fatalf("help %v: exit code %d: %s", path, code, out.Bytes())
		}
		below := regexp.MustCompile(`(?m)^  ([a-z-]+) `).FindAllStringSubmatch(subcommands(out.String()), -1)
		for _, m := range below {
			if m[1] != "help" && m[1] != "completion" { // cobra's
				each(append(slices.Clone(path), m[1]))
			}
		}
		if len(below) == 0 {
			commands++
			if name := strings.Join(path, " "); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/reference.md lacks the command %s", name)
			}
		}
	}
	each(nil)
	if commands < 20 {
		t.Errorf("%d commands found, want all", commands)
	}
	for bit, name := range outcome.FlagNames {
		if !strings.Contains(string(text), fmt.Sprintf("| `%s` | %d |", name, 1<<bit)) {
			t.Errorf("docs/reference.md lacks the flag %s, bit %d", name, 1<<bit)
		}
	}
}
