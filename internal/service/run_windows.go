package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// startPatience is the maximum time in the state "starting". Windows cannot stop a starting
// service, but a stage may restore states for long, and a gateway may wait for its server.
// After this time the service reports "running".
const startPatience = 2 * time.Minute

// Run runs the program, as a service if the service manager of Windows has started it. The
// argument interrupted is the exit code of the program after a request to end.
func Run(ctx context.Context, program Program, interrupted int) int {
	if isService, err := svc.IsWindowsService(); err == nil && isService || underWine() {
		s := &service{ctx: ctx, program: program, interrupted: interrupted}
		err := svc.Run("", s) // in a process with one service the manager knows the name
		switch {
		case err == nil:
			return int(s.code)
		case isService:
			return 1
		}
	}
	return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// underWine reports whether the program runs under Wine. Services of Wine run in the user's
// session, so IsWindowsService does not detect them; svc.Run detects the manager.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

type service struct {
	ctx         context.Context
	program     Program
	interrupted int
	code        uint32
}

// Execute runs the service. The manager gets its exit code and restarts the service after any
// code except 0.
func (s *service) Execute(args []string, requests <-chan svc.ChangeRequest, reports chan<- svc.Status) (specific bool, code uint32) {
	reports <- svc.Status{State: svc.StartPending, CheckPoint: 0, WaitHint: uint32(reportHint.Milliseconds())}
	log, err := enterFolder(args[0])
	if err != nil {
		s.code = errorCode(err)
		return false, s.code // Windows has a text for the code
	}
	defer log.Close()
	stop, ended := make(chan struct{}), make(chan uint32, 1)
	once := sync.OnceFunc(func() { close(stop) })
	go func() {
		ended <- uint32(supervise(s.ctx, stop, func(p progress) { reports <- statusOf(p) }, startPatience, s.interrupted, func(ctx context.Context) int {
			fmt.Fprintf(log, "time=%s level=INFO msg=\"service started\" name=%s args=%q\n", time.Now().Format(time.RFC3339Nano), args[0], os.Args[1:])
			code := s.program(ctx, os.Args[1:], log, log)
			fmt.Fprintf(log, "time=%s level=INFO msg=\"service stopped\" exit_code=%d\n", time.Now().Format(time.RFC3339Nano), code)
			return code
		}))
	}()
	for {
		select {
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				reports <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				once()
			}
		case s.code = <-ended:
			return true, s.code
		}
	}
}

// statusOf converts progress to a status of Windows.
func statusOf(p progress) svc.Status {
	status := svc.Status{CheckPoint: p.checkpoint, WaitHint: uint32(p.hint.Milliseconds())}
	switch p.state {
	case starting:
		status.State = svc.StartPending
	case running:
		status.State, status.Accepts = svc.Running, svc.AcceptStop|svc.AcceptShutdown
	case stopping:
		status.State = svc.StopPending
	}
	return status
}

// enterFolder changes to the folder of a service and opens its log. Crash reports of Go go to a
// separate file, because the log file may be renamed.
func enterFolder(name string) (*logFile, error) {
	folder, err := Folder(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chdir(folder); err != nil {
		return nil, err
	}
	if f, err := os.OpenFile(filepath.Join(folder, name+".crash.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
		_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // the program works without crash output
		f.Close()
	}
	return openLog(logOf(folder, name), logBytes)
}

// errorCode returns the Windows error code of an error.
func errorCode(err error) uint32 {
	if no := syscall.Errno(0); errors.As(err, &no) && no != 0 {
		return uint32(no)
	}
	return uint32(windows.ERROR_EXCEPTION_IN_SERVICE)
}

// servicesFolder returns the folder of all services, with their configurations and models.
func servicesFolder() (string, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return "", fmt.Errorf("service: the folder ProgramData is unknown: %w", err)
	}
	return filepath.Join(data, "eusn-stream"), nil
}

// Folder returns the folder of one service, with its data and its log.
func Folder(name string) (string, error) {
	parent, err := servicesFolder()
	return filepath.Join(parent, name), err
}

func logOf(folder, name string) string { return filepath.Join(folder, name+".log") }
