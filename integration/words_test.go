package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Limits of words; exceptions are data below, and may only fall.
const (
	maxPronouns     = 6   // percent of the words in the comments of a package
	maxSameName     = 12  // functions with the same general name
	maxHouseWords   = 3   // of a page
	maxPagePronouns = 7   // percent pronouns in a page
	minSentence     = 8   // words; shorter sentences are not counted
	minPronounSum   = 100 // words; packages with fewer words are not counted
)

// pronouns replace nouns. A comment with many pronouns is hard to read.
var pronouns = set("that those one ones it its them what there who which these such they others other whose whoever nobody somebody")

// standardNames are names of well-known methods and functions.
var standardNames = set("Close close String Error Run Read Write New main init Next Open Decode Encode Validate Load Unwrap Advance Len")

// houseWords are words that a reader with English as a second language may not know.
var houseWords = regexp.MustCompile(`(?i)\b(beside|anew|likewise|nobody|somebody|whoever|so many)\b`)

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(words) {
		all[w] = true
	}
	return all
}

var (
	wordPattern = regexp.MustCompile(`[A-Za-z']+`)
	sentenceEnd = regexp.MustCompile(`[.;:!?]\s+|\n\s*\n|\s\|\s`)
)

// countPronouns counts the words of a text's sentences, and the pronouns.
func countPronouns(text string) (words, found int) {
	for _, sentence := range sentenceEnd.Split(text, -1) {
		list := wordPattern.FindAllString(sentence, -1)
		if len(list) < minSentence {
			continue
		}
		words += len(list)
		for _, w := range list {
			if pronouns[strings.ToLower(w)] {
				found++
			}
		}
	}
	return words, found
}

// commentsOf returns the line comments of a Go file, adjacent lines joined.
func commentsOf(source string) string {
	var all strings.Builder
	for _, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		comment, ok := strings.CutPrefix(line, "//")
		switch {
		case !ok:
			all.WriteString("\n\n")
		case !strings.HasPrefix(comment, "go:") && !strings.HasPrefix(comment, "nolint"):
			all.WriteString(comment + " ")
		}
	}
	return all.String()
}

// share returns a percentage, rounded up.
func share(part, whole int) int { return int(math.Ceil(100 * float64(part) / float64(whole))) }

// TestWordsOfSentences checks that the sentences of comments have nouns.
func TestWordsOfSentences(t *testing.T) {
	limits := ceilings("percent pronouns in comments", maxPronouns, nil)
	words, found := map[string]int{}, map[string]int{}
	for _, name := range tracked(t, "*.go") {
		source, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if generated.Match(source) {
			continue
		}
		w, f := countPronouns(commentsOf(string(source)))
		words[path.Dir(name)] += w
		found[path.Dir(name)] += f
	}
	for name, n := range words {
		if n >= minPronounSum {
			limits.compareFigure(t, name, share(found[name], n), nil)
		}
	}
}

// TestWordsOfNames checks that few functions have the same general name: one word says
// neither what a function does nor to what.
func TestWordsOfNames(t *testing.T) {
	limits := ceilings("functions with this name", maxSameName, nil)
	count := map[string]int{}
	for _, name := range tracked(t, "*.go") {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && !standardNames[fn.Name.Name] && fn.Name.Name[1:] == strings.ToLower(fn.Name.Name[1:]) {
				count[fn.Name.Name]++
			}
		}
	}
	for name, n := range count {
		limits.compareFigure(t, name, n, nil)
	}
}

// TestWordsOfPages checks the pages for users: with nouns, without house words. budgets_test.go limits their length.
func TestWordsOfPages(t *testing.T) {
	for _, name := range tracked(t, "README.md", "docs/*.md") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "docs/measurements/") {
			continue
		}
		if w, f := countPronouns(string(text)); w >= minPronounSum && share(f, w) > maxPagePronouns {
			t.Errorf("%s has %d %% pronouns, at most %d are allowed", name, share(f, w), maxPagePronouns)
		}
		if found := houseWords.FindAllString(string(text), -1); len(found) > maxHouseWords {
			t.Errorf("%s has %d house words, at most %d are allowed: %s", name, len(found), maxHouseWords, strings.Join(found, ", "))
		}
	}
}
