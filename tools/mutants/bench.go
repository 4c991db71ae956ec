package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// bench builds and runs the tests with one file replaced.
type bench struct {
	engine, arch string
	path         string // of the assembly file, absolute
	text         string
	dir          string // folder of the built programs
	limit        time.Duration
	checked      map[string]bool
}

const kernelPackage, suitePackage = "internal/kernel", "reservoir/cpu"

func newBench(engine string) (*bench, error) {
	arch := map[string]string{"avx2": "amd64", "avx512": "amd64", "neon": "arm64"}[engine]
	if arch == "" {
		return nil, fmt.Errorf("no engine %q: want avx2, avx512 or neon", engine)
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, kernelPackage, engine+"_"+arch+".s")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, err
	}
	return &bench{engine, arch, path, string(text), dir, 5 * time.Minute, map[string]bool{}}, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

// outcome names the tests that found a fault; if only assembled is set, none did.
type outcome struct {
	assembled     bool
	suite, kernel bool   // the conformance suite; the kernels' own tests, which run if the suite finds no fault
	output        string // output of the compiler or of the failed test
}

// checkHealthy fails unless the tests pass without a fault, because only then does a
// failure prove a fault. It sets the time limit of a run.
func (b *bench) checkHealthy(ctx context.Context, kernel string) error {
	which := strings.Join(b.testsOf(kernel), " ")
	if b.checked[which] {
		return nil
	}
	b.checked[which] = true
	began := time.Now()
	got, err := b.tryText(ctx, kernel, b.text)
	switch {
	case err != nil:
		return err
	case !got.assembled:
		return fmt.Errorf("the tests do not build without a fault: %s", got.output)
	case got.suite || got.kernel:
		return fmt.Errorf("the tests fail without a fault, so they cannot find one: %s", got.output)
	}
	b.limit = max(b.limit, 10*time.Since(began))
	return nil
}

func (b *bench) plant(ctx context.Context, kernel string, f fault) (outcome, error) {
	lines := strings.Split(b.text, "\n")
	lines[f.line-1] = "\t" + f.new
	return b.tryText(ctx, kernel, strings.Join(lines, "\n"))
}

// testsOf returns the tests of the suite and of the kernels that concern a kernel.
func (b *bench) testsOf(kernel string) []string {
	if strings.HasPrefix(kernel, "mixed") {
		return []string{"^TestVectorMixed$/^" + b.engine + "$/^threads=1$", "^Test(Mixed|MaxOfZeros)/^" + b.engine + "$"}
	}
	if strings.HasPrefix(kernel, "scale") || strings.HasPrefix(kernel, "project") {
		return []string{"^TestNovelty$", "^TestNovelty$/^" + b.engine + "$"}
	}
	if strings.HasPrefix(kernel, "together") {
		return []string{"^TestReadoutsTogether$", "^TestTogether$/^" + b.engine + "$"}
	}
	if strings.Contains(strings.ToLower(kernel), "apart") {
		return []string{"^TestReadoutsTogether$", "^TestApart$/^" + b.engine + "$"}
	}
	return []string{"^TestVector$/^" + b.engine + "$/^(1_thread|single|narrow|wide)$", "/^" + b.engine + "$"}
}

// tryText tests the file with this text in its place.
func (b *bench) tryText(ctx context.Context, kernel, text string) (outcome, error) {
	file, overlay := filepath.Join(b.dir, "kernels.s"), filepath.Join(b.dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {b.path: file}})
	if err == nil {
		err = errors.Join(os.WriteFile(file, []byte(text), 0o666), os.WriteFile(overlay, list, 0o666))
	}
	if err != nil {
		return outcome{}, err
	}
	root := strings.TrimSuffix(b.path, filepath.Join(kernelPackage, filepath.Base(b.path)))
	for i, pkg := range []string{suitePackage, kernelPackage} {
		program := filepath.Join(b.dir, filepath.Base(pkg)+".test")
		c := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./"+pkg)
		c.Dir, c.Env = root, append(os.Environ(), "GOARCH="+b.arch)
		if out, err := c.CombinedOutput(); err != nil {
			return outcome{output: string(out)}, ctx.Err()
		}
		output, err := b.runTests(ctx, filepath.Join(root, pkg), program, b.testsOf(kernel)[i])
		if err != nil || output != "" {
			return outcome{true, i == 0, i == 1, output}, err
		}
	}
	return outcome{assembled: true}, nil
}

// runTests returns the output of a failing, crashing or endless test, "" if all passed.
func (b *bench) runTests(ctx context.Context, dir, program, tests string) (string, error) {
	args := []string{program, "-test.failfast", "-test.run", tests}
	if b.arch != runtime.GOARCH {
		if b.arch != "arm64" {
			return "", fmt.Errorf("%s needs a machine with it: no emulator of %s is used here", b.engine, b.arch)
		}
		args = append([]string{"qemu-aarch64"}, args...)
	}
	timed, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	c := exec.CommandContext(timed, args[0], args[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "EUSN_REQUIRE="+b.engine)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case timed.Err() != nil:
		return "no end", nil
	case !errors.As(err, &ended):
		return "", fmt.Errorf("%w (Debian: qemu-user has qemu-aarch64)", err)
	}
	return fmt.Sprintf("%v\n%s", err, out.Bytes()[:min(out.Len(), 2000)]), nil
}
