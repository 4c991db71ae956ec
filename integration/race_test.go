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

// A race needs two goroutines: make race runs the tests of every package that
// starts one, and of no other, because they take minutes.
func TestRaceList(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^RACE\s*:= ((?:.*\\\n)*.*)`).FindStringSubmatch(string(text))
	if list == nil {
		t.Fatal("the Makefile has no RACE")
	}
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
	raced := packages(strings.Fields(strings.ReplaceAll(list[1], "\\\n", " "))...)
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
			t.Errorf("%s starts goroutines, and make race does not run its tests: add it to RACE in the Makefile", strings.TrimPrefix(path, module))
		}
	}
	if concurrent < 15 {
		t.Errorf("%d packages that start goroutines found, want all", concurrent)
	}
}
