package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// boot runs the emulator until the machine switches off, and returns the text that the
// machine sent to the serial port. Progress is printed to standard output.
func boot(ctx context.Context, dir string) (string, error) {
	serial := filepath.Join(dir, "serial")
	for name, text := range map[string]string{
		"serial":  "",
		"bochsrc": fmt.Sprintf(machine, "/usr/share/bochs"),
		"debug":   "c\n", // Debian's emulator starts in its debugger: continue
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return "", err
		}
	}
	c := exec.CommandContext(ctx, "bochs", "-q", "-f", "bochsrc", "-rc", "debug")
	c.Dir, c.Env = dir, append(os.Environ(), "TERM=vt100")
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("%w (Debian: bochs, bochs-term)", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	began, shown := time.Now(), 0
	show := func() string {
		data, err := os.ReadFile(serial)
		if err != nil {
			return ""
		}
		output := strings.ReplaceAll(string(data), "\r", "")
		for {
			line, _, whole := strings.Cut(output[shown:], "\n")
			if !whole {
				return output
			}
			shown += len(line) + 1
			if strings.HasPrefix(line, "== ") || strings.HasPrefix(strings.TrimSpace(line), "--- ") && strings.Count(line, "/") < 3 {
				fmt.Printf("%4.0f s  %s\n", time.Since(began).Seconds(), line)
			}
		}
	}
	for tick := time.Tick(time.Second); ; {
		select {
		case err := <-ended:
			return show(), err
		case <-tick:
			show()
		}
	}
}

// checkOutput returns nil if every required test passed, no test failed or was skipped,
// and the machine ran to its end.
func checkOutput(output string, chosen []job) error {
	var bad []error
	passed := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "--- PASS: "); ok {
			name, _, _ = strings.Cut(name, " ")
			passed[name] = true
		}
		for _, sign := range []string{"--- FAIL", "--- SKIP", "panic:", "fatal error:", "== failed", "== error"} {
			if strings.HasPrefix(line, sign) {
				bad = append(bad, errors.New(line))
			}
		}
		passed[line] = true
	}
	for _, j := range chosen {
		for _, name := range append(slices.Clone(j.want), "== passed "+j.name) {
			if !passed[name] {
				bad = append(bad, fmt.Errorf("%s: did not pass: %s", j.name, name))
			}
		}
	}
	if !passed["== end"] {
		bad = append(bad, errors.New("the machine did not run to its end"))
	}
	return errors.Join(append(bad, lines.Err())...)
}

// runNative runs the jobs on this machine as the emulated machine would, and returns
// their output.
func runNative(ctx context.Context, root string, chosen []job) (string, error) {
	var output strings.Builder
	for _, j := range chosen {
		program, err := filepath.Abs(filepath.Join(root, j.name))
		if err != nil {
			return "", err
		}
		c := exec.CommandContext(ctx, program, strings.Fields(j.args)...)
		c.Dir, c.Env = root, append(os.Environ(), "EUSN_REQUIRE=avx512")
		out, err := c.CombinedOutput()
		output.Write(out)
		if err != nil {
			fmt.Fprintf(&output, "== failed %s: %v\n", j.name, err)
			continue
		}
		fmt.Fprintln(&output, "== passed", j.name)
		fmt.Println("passed on this machine:", j.name)
	}
	output.WriteString("== end\n")
	return output.String(), ctx.Err()
}
