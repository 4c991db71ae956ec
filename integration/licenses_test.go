package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Every direct requirement of go.mod is in the list of licenses.
func TestLicenses(t *testing.T) {
	list, err := os.ReadFile("../docs/licenses.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, name := range regexp.MustCompile(`[a-z.]+\.[a-z]+/[\w./~-]+`).FindAllString(string(list), -1) {
		listed[name] = true
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	if len(modules) < 15 {
		t.Fatalf("%d modules found, want all that go.mod requires", len(modules))
	}
	for _, m := range modules {
		if !listed[m] {
			t.Errorf("go.mod requires %s: say in docs/licenses.md what its license is and what it is for", m)
		}
	}
}
