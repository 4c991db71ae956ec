package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestHashes: passed jobs are recognized, and the hash depends on every input.
func TestHashes(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "kernel"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(j job) string {
		t.Helper()
		sums, err := hashJobs(root, []job{j})
		if err != nil {
			t.Fatal(err)
		}
		return sums["kernel"]
	}
	j := job{name: "kernel", args: "-test.v", want: []string{"TestA"}}
	write("binary")
	first := sum(j)
	if sum(j) != first {
		t.Error("the same job has two hashes")
	}
	if other := (job{"kernel", "", "-test.short", j.want}); sum(other) == first {
		t.Error("other arguments have the same hash")
	}
	if other := (job{"kernel", "", j.args, []string{"TestB"}}); sum(other) == first {
		t.Error("other tests have the same hash")
	}
	write("binarx")
	if sum(j) == first {
		t.Error("another binary has the same hash")
	}
}

func TestRecord(t *testing.T) {
	t.Chdir(t.TempDir())
	if passed, err := readRecord(); err != nil || len(passed) != 0 {
		t.Errorf("without a record: %v, %v", passed, err)
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o777); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"kernel": "ab", "dense": "cd"}
	if err := writeRecord(want); err != nil {
		t.Fatal(err)
	}
	if got, err := readRecord(); err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v: want %v", got, err, want)
	}
}
