package plants

import (
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the project.
var root, _ = filepath.Abs("../..")

// page has the parts of a page that are run or measured.
type page struct {
	name     string
	commands [][]string // words of each command, without the name of the program
	first    int        // number of commands in the first block, which leads to an alarm
	rows     []cells    // of the table of figures
}

// cells are the first cells of a row in the table of figures.
type cells struct{ figure, own, baseline string }

// tableHeader begins the table of figures.
const tableHeader = "|figure|eusn-stream|scikit-learn|published|"

var shellWord = regexp.MustCompile(`'([^']*)'|([^\s']+)`)

// splitWords returns the words of a command in a shell, without the name of the program.
func splitWords(line string) (words []string) {
	for _, m := range shellWord.FindAllStringSubmatch(line, -1)[1:] {
		words = append(words, m[1]+m[2])
	}
	return words
}

// pageFile returns the path of a page.
func pageFile(name string) string { return filepath.Join(root, "docs", "plants", name+".md") }

// readPage reads a page.
func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(pageFile(name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: name}
	inTable := false
	for line := range strings.Lines(string(text)) {
		code, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		inTable = strings.HasPrefix(line, tableHeader) || inTable && strings.HasPrefix(line, "|")
		switch {
		case isCode && strings.HasPrefix(code, "eusn-stream "):
			p.commands = append(p.commands, splitWords(code))
		case p.first == 0 && len(p.commands) > 0:
			p.first = len(p.commands)
		case inTable && !strings.HasPrefix(line, tableHeader) && !strings.HasPrefix(line, "|--"):
			c := strings.Split(line, "|")
			p.rows = append(p.rows, cells{strings.TrimSpace(c[1]), strings.TrimSpace(c[2]), strings.TrimSpace(c[3])})
		}
	}
	if p.first == 0 || len(p.commands) == p.first || len(p.rows) == 0 {
		t.Fatalf("%s: %d commands, %d in the first block, %d rows", name, len(p.commands), p.first, len(p.rows))
	}
	return p
}

// figures are the cells by page and figure.
type figures map[[2]string]cells

// figuresFile has the figures of all pages.
func figuresFile() string { return filepath.Join(root, "docs", "results", "plants.csv") }

// readFigures reads the figures that make plants has written.
func readFigures(t *testing.T) figures {
	t.Helper()
	f, err := os.Open(figuresFile())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := figures{}
	for _, r := range rows[1:] {
		all[[2]string{r[0], r[1]}] = cells{r[1], r[2], r[3]}
	}
	return all
}

// write writes the figures to their file and to the tables of the pages.
func (all figures) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"page", "figure", "eusn-stream", "scikit-learn"})
	keys := slices.SortedFunc(maps.Keys(all), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		_ = w.Write([]string{k[0], k[1], all[k].own, all[k].baseline})
	}
	w.Flush()
	if err := os.WriteFile(figuresFile(), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		text, err := os.ReadFile(pageFile(s.page))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			c := strings.Split(line, "|")
			if len(c) < 6 {
				continue
			}
			if f, ok := all[[2]string{s.page, strings.TrimSpace(c[1])}]; ok {
				c[2], c[3] = f.own, f.baseline
				lines[i] = strings.Join(c, "|")
			}
		}
		if err := os.WriteFile(pageFile(s.page), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPages checks that the figures on the pages are those that make plants has written, that the
// first block of a page leads to a live alarm with at most five commands, and that an evaluation has
// the same model, data and rules.
func TestPages(t *testing.T) {
	all := readFigures(t)
	for _, s := range sets {
		p := readPage(t, s.page)
		for _, r := range p.rows {
			if want, ok := all[[2]string{p.name, r.figure}]; !ok || want != r {
				t.Errorf("%s: %q has the figures %q, %q; make plants wrote %q, %q", p.name, r.figure, r.own, r.baseline, want.own, want.baseline)
			}
		}
		if p.first > 5 {
			t.Errorf("%s: %d commands to the alarm, want at most 5", p.name, p.first)
		}
		train, run, replay := p.commands[p.first-3], p.commands[p.first-2], p.commands[p.first-1]
		if train[0] != "train" || run[0] != "run" || replay[0] != "replay" || option(run, "--model") != option(train, "--output") || option(run, "--dir") != option(replay, "--dir") {
			t.Errorf("%s: the first block ends with %q, %q, %q", p.name, train, run, replay)
		}
		if !slices.ContainsFunc(p.commands[p.first:], func(c []string) bool {
			return c[0] == "evaluate" && c[1] == replay[1] && option(c, "--model") == option(run, "--model") && option(c, rulesFlag) == option(run, rulesFlag)
		}) {
			t.Errorf("%s: no evaluation of %q", p.name, run)
		}
	}
}

// rulesFlag is the flag of alarm rules.
const rulesFlag = "--alarm-rules"

// option returns the word after a flag of a command; empty: the flag is absent.
func option(command []string, flag string) string {
	if i := slices.Index(command, flag); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}
