package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A race needs two goroutines: make race-all runs the tests of the packages that start
// goroutines, and of no others, because they take minutes.
func TestRaceList(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`(?m)^RACE(?:_REST)?\s*:= ((?:.*\\\n)*.*)`).FindAllStringSubmatch(string(text), -1)
	if len(lists) != 2 {
		t.Fatalf("the Makefile has %d lists of packages for the race detector, want RACE and RACE_REST", len(lists))
	}
	list := lists[0][1] + " " + lists[1][1]
	packages := func(patterns ...string) map[string]string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}, patterns...)...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %v: %v", patterns, err)
		}
		dirs := map[string]string{}
		for line := range strings.Lines(string(out)) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			dirs[path] = dir
		}
		return dirs
	}
	raced := packages(strings.Fields(strings.ReplaceAll(list, "\\\n", " "))...)
	goroutine := regexp.MustCompile(`(?m)^\s*go (func\(|[\w.]+\()|\.Go\(`)
	concurrent := 0
	for path, dir := range packages("./...") {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		starts := slices.ContainsFunc(files, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && !strings.HasSuffix(name, "_test.go") && goroutine.Match(text)
		})
		if !starts {
			continue
		}
		concurrent++
		if raced[path] == "" {
			t.Errorf("%s starts goroutines, and make race-all does not run its tests: add it to RACE_REST in the Makefile", strings.TrimPrefix(path, module))
		}
	}
	if concurrent < 15 {
		t.Errorf("%d packages that start goroutines found, want all", concurrent)
	}
}
