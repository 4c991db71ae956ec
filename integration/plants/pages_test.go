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
	config   string     // text of the configuration
	file     string     // its name
	rows     []cells    // of the table of figures
}

// cells are the first cells of a row in the table of figures.
type cells struct{ figure, own, baseline string }

// tableHeader begins the table of figures.
const tableHeader = "| figure | eusn-stream | scikit-learn | published |"

var (
	shellWord  = regexp.MustCompile(`'([^']*)'|([^\s']+)`)
	configName = regexp.MustCompile("(?i)write `([a-z]+\\.yaml)`")
)

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
	if m := configName.FindStringSubmatch(string(text)); m != nil {
		p.file = m[1]
	}
	inTable := false
	for line := range strings.Lines(string(text)) {
		code, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		inTable = strings.HasPrefix(line, tableHeader) || inTable && strings.HasPrefix(line, "|")
		switch {
		case isCode && strings.HasPrefix(code, "eusn-stream "):
			var words []string
			for _, m := range shellWord.FindAllStringSubmatch(code, -1) {
				words = append(words, m[1]+m[2])
			}
			p.commands = append(p.commands, words[1:])
		case isCode:
			p.config += code + "\n"
		case inTable && !strings.HasPrefix(line, tableHeader) && !strings.HasPrefix(line, "|--"):
			c := strings.Split(line, "|")
			p.rows = append(p.rows, cells{strings.TrimSpace(c[1]), strings.TrimSpace(c[2]), strings.TrimSpace(c[3])})
		}
	}
	if p.file == "" || p.config == "" || len(p.commands) == 0 || len(p.rows) == 0 {
		t.Fatalf("%s: %d commands, %d rows, configuration %q: %q", name, len(p.commands), len(p.rows), p.file, p.config)
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
				c[2], c[3] = " "+f.own+" ", " "+f.baseline+" "
				lines[i] = strings.Join(c, "|")
			}
		}
		if err := os.WriteFile(pageFile(s.page), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPages checks that the figures on the pages are those that make plants has written, that a
// live alarm needs at most five commands, and that the live commands use the trained model.
func TestPages(t *testing.T) {
	all := readFigures(t)
	for _, s := range sets {
		p := readPage(t, s.page)
		for _, r := range p.rows {
			if want, ok := all[[2]string{p.name, r.figure}]; !ok || want != r {
				t.Errorf("%s: %q has the figures %q, %q; make plants wrote %q, %q", p.name, r.figure, r.own, r.baseline, want.own, want.baseline)
			}
		}
		toAlarm := len(p.commands)
		var model, replayed string
		for _, c := range p.commands {
			switch c[0] {
			case "evaluate":
				replayed = c[1]
				toAlarm--
			case "train":
				if model = option(c, "--output"); !strings.Contains(p.config, "model: "+model+"\n") {
					toAlarm-- // for evaluate only
				}
			case "run":
				if option(c, "-c") != p.file || !strings.Contains(p.config, "model: "+model+"\n") {
					t.Errorf("%s: %q with the model %s, trained is %s", p.name, c, p.config, model)
				}
			case "replay":
				if option(c, "-c") != p.file || c[1] != replayed {
					t.Errorf("%s: %q replays other data than evaluate reads (%s)", p.name, c, replayed)
				}
			}
		}
		if toAlarm > 5 {
			t.Errorf("%s: %d commands to the alarm, want at most 5", p.name, toAlarm)
		}
	}
}

// option returns the word after a flag of a command; empty: the flag is absent.
func option(command []string, flag string) string {
	if i := slices.Index(command, flag); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}
