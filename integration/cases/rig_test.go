package cases

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

const patience = 30 * time.Second

// rig is the environment of a group of cases: the program of this checkout, a folder and
// ports.
type rig struct {
	cases   string // folder of the group's inputs
	dir     string
	program string
}

// newRig returns the rig of a group of cases, or skips the test.
func newRig(t *testing.T, group string) *rig {
	t.Helper()
	if os.Getenv("EUSN_CASES") == "" && !parts.Required("cases") {
		t.Skip("NOT CHECKED: these cases take minutes: make cases")
	}
	cases, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "cases", group))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cases); err != nil {
		parts.Absent(t, "cases", "no folder ../shared/cases/%s next to the project", group)
	}
	r := &rig{cases: cases, dir: t.TempDir()}
	r.program = r.build(t, "eusn-stream", "./cmd/eusn-stream")
	return r
}

// firstPort returns the first of the cases' 200 ports.
func firstPort() int {
	n, _ := strconv.Atoi(os.Getenv("EUSN_CASES_PORT"))
	return cmp.Or(n, 22100)
}

// portOf returns a port of the rig: the inputs count from 22100.
func portOf(n int) int { return n - 22100 + firstPort() }

func addressOf(n int) string { return fmt.Sprintf("127.0.0.1:%d", portOf(n)) }

// portNumber matches a port in an input; the rig replaces the port.
var portNumber = regexp.MustCompile(`\b22[12][0-9][0-9]\b`)

// copyInput copies a file of the group to the rig, with the rig's ports, and returns its
// path.
func (r *rig) copyInput(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.cases, name))
	if err != nil {
		t.Fatal(err)
	}
	if ext := filepath.Ext(name); ext != ".arrow" && ext != ".parquet" && ext != ".gz" && ext != ".csv" {
		data = portNumber.ReplaceAllFunc(data, func(b []byte) []byte {
			n, _ := strconv.Atoi(string(b))
			return strconv.AppendInt(nil, int64(portOf(n)), 10)
		})
	}
	if filepath.Ext(name) == ".yaml" {
		data = renamedKeys(t, data)
	}
	return r.writeFile(t, filepath.Base(name), string(data))
}

func (r *rig) pathOf(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(r.pathOf(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return r.pathOf(name)
}

// build compiles a program of this module. overlay adds files to the module: path in the
// module, file.
func (r *rig) build(t *testing.T, name, pkg string, overlay ...string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-o", r.pathOf(name)}
	if len(overlay) > 0 {
		replace := map[string]string{}
		for i := 0; i < len(overlay); i += 2 {
			replace[filepath.Join(root, overlay[i])] = overlay[i+1]
		}
		data, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-overlay", r.writeFile(t, name+"-overlay.json", string(data)))
	}
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return r.pathOf(name)
}

// process is a program that runs during the test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// output returns the output of the process so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// hasEnded reports whether the process has ended, and its exit code.
func (p *process) hasEnded() (code int, ended bool) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// start starts a program in the rig's folder until the end of the test.
func (r *rig) start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = r.dir, p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// stop ends the process as an operator does.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.kill()
	}
}

// awaitText returns true after the process has printed a text; false if it ends first or
// exceeds the time.
func (p *process) awaitText(text string, within time.Duration) bool {
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(p.output(), text) {
			return true
		}
		if _, ended := p.hasEnded(); ended || time.Now().After(end) {
			return strings.Contains(p.output(), text)
		}
	}
}

// startUntil starts the program of this checkout and waits for a text.
func (r *rig) startUntil(t *testing.T, text string, args ...string) *process {
	t.Helper()
	p := r.start(t, r.program, args...)
	if !p.awaitText(text, patience) {
		t.Fatalf("eusn-stream %s did not print %q:\n%s", strings.Join(args, " "), text, p.output())
	}
	return p
}

// execute runs a program to its end and returns its output.
func (r *rig) execute(within time.Duration, program string, args ...string) (out string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = r.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return err.Error(), -1
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// runProgram runs the program of this checkout to its end.
func (r *rig) runProgram(args ...string) (out string, code int) {
	return r.execute(2*time.Minute, r.program, args...)
}

// mustRun runs the program of this checkout, which must succeed.
func (r *rig) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, code := r.runProgram(args...)
	if code != 0 {
		t.Fatalf("eusn-stream %s: code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}
