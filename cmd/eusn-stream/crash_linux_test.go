package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// plantedCrash is the kind of crash of TestPlantedCrash: "panic" or "memory".
const plantedCrash = "EUSN_TEST_CRASH"

var allocated []byte

// TestPlantedCrash is only for child processes, in which it crashes in a goroutine.
func TestPlantedCrash(t *testing.T) {
	done := make(chan struct{})
	switch os.Getenv(plantedCrash) {
	case "panic":
		go func() { panic("planted") }()
	case "memory":
		go func() { allocated = make([]byte, 1<<40); close(done) }()
	default:
		return
	}
	<-done
}

// Every unit must restart the program after a crash: its exit code is none of the final
// codes of a unit. After wrong usage and a wrong configuration no unit restarts the
// program.
func TestCrashesAreRestarted(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", clitest.ImportTiny(t, 1), "--output", model, "--members", "1", "--units", "5")
	aborted := startChild(t, "", "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "0", "--partitions", "2")
	if err := aborted.Process.Signal(syscall.SIGABRT); err != nil { // as the watchdog of systemd does
		t.Fatal(err)
	}
	crash := func(how, text string) int {
		c := osexec.Command("/bin/sh", "-c", `ulimit -v 8000000; exec "$0" -test.run='^TestPlantedCrash$'`, os.Args[0])
		c.Env = append(os.Environ(), plantedCrash+"="+how)
		out, _ := c.CombinedOutput()
		if !strings.Contains(string(out), text) {
			t.Fatalf("the process did not end by %q:\n%s", text, out)
		}
		return c.ProcessState.ExitCode()
	}
	_ = aborted.Wait()
	crashed := map[string]int{
		"SIGABRT":       aborted.ProcessState.ExitCode(),
		"panic":         crash("panic", "panic: planted"),
		"out of memory": crash("memory", "out of memory"),
	}
	units, err := filepath.Glob("../../configs/systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("units %v, error %v", units, err)
	}
	for _, unit := range units {
		text := string(clitest.Read(t, unit))
		given := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindStringSubmatch(text)
		if given == nil || !regexp.MustCompile(`(?m)^Restart=(on-failure|always)$`).MatchString(text) {
			t.Fatalf("%s has no Restart or no RestartPreventExitStatus", unit)
		}
		var never []int
		for _, word := range strings.Fields(given[1]) {
			code, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			never = append(never, code)
		}
		for what, code := range crashed {
			if code == cli.ExitOK || slices.Contains(never, code) {
				t.Errorf("%s: %s ends with %d, which %s does not restart", unit, what, code, given[0])
			}
		}
		for _, code := range []int{cli.ExitUsage, cli.ExitConfig, cli.ExitOtherModel} {
			if !slices.Contains(never, code) {
				t.Errorf("%s restarts the program after %d, which does not help", unit, code)
			}
		}
		for _, code := range []int{cli.ExitFailure, cli.ExitUnreachable} {
			if slices.Contains(never, code) {
				t.Errorf("%s does not restart the program after %d", unit, code)
			}
		}
	}
}
