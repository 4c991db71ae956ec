package planttest

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Service is a program with automatic restart.
type Service struct {
	args []string
	env  []string
	Log  string // file of the program's messages

	mu   sync.Mutex
	cmd  *exec.Cmd
	held bool // do not restart until Release
	over bool
	done chan struct{}
}

func (s *Service) keepRunning() {
	defer close(s.done)
	for {
		cmd, over := s.startProcess()
		if over {
			return
		}
		if cmd != nil {
			cmd.Wait()
		}
		time.Sleep(Restarting)
	}
}

func (s *Service) startProcess() (cmd *exec.Cmd, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = nil
	if s.over || s.held {
		return nil, s.over
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, false
	}
	defer log.Close() // the child has its own copy
	cmd = exec.Command(s.args[0], s.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	if cmd.Start() != nil {
		return nil, false
	}
	s.cmd = cmd
	return cmd, false
}

// Kill ends the program as kill -9 does. The program restarts at once, or after Release
// if held is true.
func (s *Service) Kill(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	if s.cmd != nil {
		s.cmd.Process.Kill()
	}
}

// Release lets a held program restart.
func (s *Service) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
}

// End ends the program for good.
func (s *Service) End() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.Kill(true)
	<-s.done
}

// PID returns the process id; 0 while the program does not run.
func (s *Service) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Signal sends the program a signal, such as -USR1.
func (s *Service) Signal(signal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return errors.New("the program does not run")
	}
	return exec.Command("kill", signal, strconv.Itoa(s.cmd.Process.Pid)).Run()
}
