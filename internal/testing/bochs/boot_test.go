package main

import (
	"strings"
	"testing"
)

// TestVerdict: every kind of failure in the output fails the run.
func TestVerdict(t *testing.T) {
	chosen := []job{{name: "kernel", want: []string{"TestA/avx512", "TestB/avx512"}}}
	good := "[    0.1] kernel\n== start kernel\n    --- PASS: TestA/avx512 (0.00s)\n    --- PASS: TestB/avx512 (1.00s)\nPASS\n== passed kernel\n== end\n"
	if err := checkOutput(good, chosen); err != nil {
		t.Errorf("a good run fails: %v", err)
	}
	for name, change := range map[string][2]string{
		"nothing":        {good, ""},
		"a test missing": {"    --- PASS: TestA/avx512 (0.00s)\n", ""},
		"another's name": {"TestA/avx512", "TestAB/avx512"},
		"failed":         {"PASS: TestB", "FAIL: TestB"},
		"a skip beside":  {"PASS\n", "--- SKIP: TestC/avx512 (0.00s)\n"},
		"a panic":        {"PASS\n", "panic: no\n"},
		"exit status":    {"== passed kernel", "== failed kernel: exit status 2"},
		"cut off":        {"== end\n", ""},
		"no exit status": {"== passed kernel\n", ""},
	} {
		if checkOutput(strings.Replace(good, change[0], change[1], 1), chosen) == nil {
			t.Errorf("%s: passes", name)
		}
	}
}
