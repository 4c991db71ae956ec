package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultsApply: the text replaced by a fault of the protocol occurs once in the file,
// and the test of the fault exists.
func TestFaultsApply(t *testing.T) {
	names := map[string]bool{}
	for _, p := range protocol {
		if names[p.name] {
			t.Errorf("two faults are called %s", p.name)
		}
		names[p.name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", p.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if changed, err := p.apply(string(text)); err != nil {
			t.Error(err)
		} else if changed == string(text) {
			t.Errorf("%s: changes nothing", p.name)
		}
		tests, err := filepath.Glob(filepath.Join("..", "..", p.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !declaresTest(t, tests, p.test) {
			t.Errorf("%s: package %s has no test %s", p.name, p.pkg, p.test)
		}
	}
	if len(names) < 13 {
		t.Errorf("%d faults: the list has lost some", len(names))
	}
}

func declaresTest(t *testing.T, files []string, name string) bool {
	t.Helper()
	name, _, _ = strings.Cut(name, "/")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// TestPlantedProtocol plants a fault of the protocol, which its test must find; make protocol-mutants
// plants all.
func TestPlantedProtocol(t *testing.T) {
	var out strings.Builder
	lived, err := plantAll(t.Context(), &out, regexp.MustCompile("^promotion: the number before"))
	if lived > 0 || err != nil || !strings.Contains(out.String(), "1 faults planted, 1 found") {
		t.Errorf("%d lived, %v: %s", lived, err, &out)
	}
	if _, err := plantAll(t.Context(), &out, regexp.MustCompile("^nothing$")); err == nil {
		t.Error("a name that no fault has is accepted")
	}
}

// TestFaultThatDoesNotApply: changed code is an error, never a fault that was found.
func TestFaultThatDoesNotApply(t *testing.T) {
	p := planted{name: "x", file: "tools/mutants/faults.go", old: "no such text", new: "y"}
	for _, text := range []string{"", "no such text, no such text"} {
		if _, err := p.apply(text); err == nil {
			t.Errorf("a fault applies to %q", text)
		}
	}
}
