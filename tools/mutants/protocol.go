package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// planted is a fault in the data stored by the stage and its companions, or in the order
// of stores. The test must fail with the fault.
type planted struct {
	name     string
	file     string // from the root of the repository
	old, new string // old occurs once in the file
	pkg      string
	test     string // name of the test or subtest

	simulated bool   // the simulation must find the fault, too
	guests    string // processes next to the stage that the histories have

	parts []string  // names of faults that are planted as well
	also  []planted // other changes of this fault
}

// apply returns the text with the fault.
func (p planted) apply(text string) (string, error) {
	if n := strings.Count(text, p.old); n != 1 {
		return "", fmt.Errorf("%s: %s has the text to replace %d times, want once: change tools/mutants/faults.go with the code\n%s", p.name, p.file, n, p.old)
	}
	return strings.Replace(text, p.old, p.new, 1), nil
}

// plantAll plants the faults of the protocol with a matching name, and returns the number
// of faults not found by their tests.
func plantAll(ctx context.Context, out io.Writer, names *regexp.Regexp) (lived int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	n := 0
	for _, p := range protocol {
		if !names.MatchString(p.name) {
			continue
		}
		n++
		begin := time.Now()
		found, err := p.plant(ctx, root, dir)
		if err != nil {
			return lived, err
		}
		verdict := "found"
		if !found {
			verdict = "LIVED"
			lived++
		}
		fmt.Fprintf(out, "%s: %s, by %s in %s, %.0f s\n", verdict, p.name, p.test, p.pkg, time.Since(begin).Seconds())
	}
	if n == 0 {
		return 0, fmt.Errorf("no fault of the protocol has a name that matches %s", names)
	}
	fmt.Fprintf(out, "%d faults planted, %d found\n", n, n-lived)
	return lived, nil
}

// plant reports whether the test fails with the fault. The same test must pass without
// the fault.
func (p planted) plant(ctx context.Context, root, dir string) (found bool, err error) {
	path := filepath.Join(root, p.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	changed, err := p.apply(string(text))
	if err != nil {
		return false, err
	}
	file, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err == nil {
		err = errors.Join(os.WriteFile(file, []byte(changed), 0o666), os.WriteFile(overlay, list, 0o666))
	}
	if err != nil {
		return false, err
	}
	if said, failed, err := p.test1(ctx, root); err != nil || failed {
		return false, errors.Join(err, fmt.Errorf("%s: the test %s fails without the fault, so it cannot find a fault: %s", p.name, p.test, said))
	}
	said, failed, err := p.test1(ctx, root, "-overlay", overlay)
	if err != nil {
		return false, err
	}
	if failed && !strings.Contains(said, "--- FAIL: "+p.test) {
		return false, fmt.Errorf("%s: the test did not run to its failure: %s", p.name, said)
	}
	return failed, nil
}

// test1 runs the test. A test that passed before without a fault is not run again.
func (p planted) test1(ctx context.Context, root string, flags ...string) (said string, failed bool, err error) {
	args := append([]string{"test", "-vet=off", "-failfast", "-timeout", "2m", "-v", "-run", "^" + strings.ReplaceAll(p.test, "/", "$/^") + "$"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+p.pkg)...)
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", false, ctx.Err()
	}
	said = string(b)
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return "", false, err
	}
	if !strings.Contains(said, "=== RUN   "+p.test+"\n") {
		return "", false, fmt.Errorf("%s: the test %s of %s was not run: %s", p.name, p.test, p.pkg, said)
	}
	if len(said) > 2000 {
		said = said[len(said)-2000:]
	}
	return said, err != nil, nil
}

// moduleRoot is the folder of the repository.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w (run it inside the repository)", err)
	}
	return strings.TrimSpace(string(out)), nil
}
