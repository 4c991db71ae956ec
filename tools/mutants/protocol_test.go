package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaultsApply: the text replaced by a fault of the protocol occurs once in the file,
// and the test of the fault exists. Only the simulation finds a fault of simulated.
func TestFaultsApply(t *testing.T) {
	names := map[string]bool{}
	for i, p := range slices.Concat(protocol, simulated, past) {
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
		if p.test == "" && i >= len(protocol) {
			continue
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

// TestReadReport reads reports of tools/simulate about a found fault, a fault that no
// history has found, and a fault that does not compile.
func TestReadReport(t *testing.T) {
	var h history
	if err := h.readReport("FAIL seed 4, 2 cut, 1 kill: 1 lost, 0 duplicated, 2 wrong: stream a: gone; and more\n{\n  \"histories\": 4,\n  \"failed\": [4]\n}\n"); err != nil || !h.Found || h.Seed != 4 || h.Histories != 4 || h.Failure != "1 lost, 0 duplicated, 2 wrong: stream a: gone" {
		t.Errorf("a found fault: %+v, %v", h, err)
	}
	h = history{}
	if err := h.readReport("{\n  \"histories\": 70,\n  \"failed\": []\n}\n"); err != nil || h.Found || h.Histories != 70 {
		t.Errorf("a fault that lived: %+v, %v", h, err)
	}
	if err := h.readReport("./x.go:3:1: syntax error\n"); err == nil {
		t.Error("a fault that does not compile counts as planted")
	}
	if all := listSimulated(regexp.MustCompile("")); len(all) < 59 {
		t.Errorf("%d faults for the simulation: the lists have lost some", len(all))
	}
	if all := listSimulated(regexp.MustCompile("^learn")); len(all) > 0 {
		t.Errorf("%d faults of learn: no history learns", len(all))
	}
}

// TestSimulatedTable: a row of the published table names a fault of the simulation, and no
// fault has two rows. A fault without a row has not run.
func TestSimulatedTable(t *testing.T) {
	file, err := os.Open("../../docs/results/simulated-faults.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range listSimulated(regexp.MustCompile("")) {
		names[p.name] = true
	}
	for _, row := range rows[1:] {
		if !names[row[0]] {
			t.Errorf("the table has %q, which is no fault or has two rows: run make simulate-mutants and change the table", row[0])
		}
		delete(names, row[0])
	}
}
