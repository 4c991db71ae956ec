package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// record is the file of passed jobs: a line for each job, with its name and the hash of
// all inputs of its result.
const record = "internal/testing/bochs/passed"

// hashJobs returns the hashes of the jobs: of the test binary, its arguments and the
// tests that must pass.
func hashJobs(root string, chosen []job) (map[string]string, error) {
	sums := map[string]string{}
	for _, j := range chosen {
		binary, err := os.ReadFile(filepath.Join(root, j.name))
		if err != nil {
			return nil, err
		}
		inputs := fmt.Sprintf("%d\n%s\n%q\n", len(binary), j.args, j.want)
		sums[j.name] = fmt.Sprintf("%x", sha256.Sum256(append([]byte(inputs), binary...)))
	}
	return sums, nil
}

// readRecord returns the hashes by job; none if there is no record.
func readRecord() (map[string]string, error) {
	text, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	passed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, sum, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			passed[name] = sum
		}
	}
	return passed, nil
}

func writeRecord(passed map[string]string) error {
	var b strings.Builder
	b.WriteString("# Written by make avx512: the test binaries that have passed with AVX-512. Never by hand.\n")
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		fmt.Fprintln(&b, name, passed[name])
	}
	return os.WriteFile(record, []byte(b.String()), 0o666)
}
