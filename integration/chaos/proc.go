//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// proc is a child process in its own process group.
type proc struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

// children starts processes and keeps a list of them, so that no process is left after a
// run.
type children struct {
	dir string // directory of the logs, one file per name

	mu  sync.Mutex
	all []*proc
}

// start runs args with extra environment entries; output is appended to <dir>/<name>.log.
// The kernel kills the child if this process dies first.
func (c *children) start(name string, env []string, args ...string) (*proc, error) {
	return c.startIn(0, name, env, args...)
}

// startIn is start in new namespaces (flags of clone(2)).
func (c *children) startIn(own uintptr, name string, env []string, args ...string) (*proc, error) {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: own}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("chaos: %s: %w", name, err)
	}
	p := &proc{name: name, cmd: cmd, done: make(chan struct{})}
	c.mu.Lock()
	c.all = append(c.all, p)
	c.mu.Unlock()
	go func() {
		cmd.Wait() // ProcessState has the exit status
		close(p.done)
	}()
	return p, nil
}

// signal sends a signal to the whole process group.
func (p *proc) signal(s syscall.Signal) { syscall.Kill(-p.cmd.Process.Pid, s) }

// kill ends the process now and returns after its end.
func (p *proc) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop sends SIGTERM, kills the process after patience, and returns the exit status.
func (p *proc) stop(patience time.Duration) string {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.kill()
		return fmt.Sprintf("did not end within %v of SIGTERM", patience)
	}
	return p.exitStatus()
}

func (p *proc) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wasKilled reports whether the process, which must have ended, ended by SIGKILL.
func (p *proc) wasKilled() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// isStopped waits until the kernel shows the process as stopped: each thread must have
// run first, which takes a while on a loaded machine.
func (p *proc) isStopped() bool {
	for range 2000 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
		if err != nil {
			return false
		}
		if after := string(stat[strings.LastIndexByte(string(stat), ')')+1:]); strings.HasPrefix(after, " T") {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// exitStatus describes the end of the process, which must have ended: "exit status 0",
// "signal: killed".
func (p *proc) exitStatus() string { return p.cmd.ProcessState.String() }

const endedWell = "exit status 0"

// reap kills all running processes and returns the names of the processes or groups that
// it found. After a clean end, it finds none.
func (c *children) reap() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		switch {
		case !p.hasEnded():
			left = append(left, p.name)
			p.kill()
		case syscall.Kill(-p.cmd.Process.Pid, 0) == nil: // the leader has ended, but a child has not
			left = append(left, p.name+"'s child")
			p.signal(syscall.SIGKILL)
		}
	}
	return left
}

// alarms are words that no fault may cause in a log.
var alarms = [][]byte{[]byte("partition stopped"), []byte("BUG:"), []byte("panic: "), []byte("DATA RACE"), []byte("fatal error: ")}

const maxCries = 5

// findAlarms collects lines with alarms from all logs, some of each kind.
func (c *children) findAlarms() (lines []string) {
	many := map[int]int{}
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log")) // the pattern is valid
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			return append(lines, err.Error())
		}
		for line := range bytes.Lines(text) {
			kind := slices.IndexFunc(alarms, func(a []byte) bool { return bytes.Contains(line, a) })
			if kind < 0 {
				continue
			}
			if many[kind]++; many[kind] <= maxCries {
				lines = append(lines, filepath.Base(path)+": "+string(bytes.TrimSpace(line)))
			}
		}
	}
	return lines
}
