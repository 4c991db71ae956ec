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

// startPatience is how long a service that is not ready is told as one that starts.
// Windows lets nobody stop a service while it starts, and a stage may restore states for
// long, and a gateway wait for its server. So it is told as running then.
const startPatience = 2 * time.Minute

// Run runs the program: as a service, where the service manager of Windows has started it.
// interrupted is its exit code where it was asked to end.
func Run(ctx context.Context, program Program, interrupted int) int {
	if is, err := svc.IsWindowsService(); err == nil && is || underWine() {
		s := &service{ctx: ctx, program: program, interrupted: interrupted}
		err := svc.Run("", s) // of a process with one service the manager knows the name
		switch {
		case err == nil:
			return int(s.code)
		case is:
			return 1
		}
	}
	return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// underWine reports whether Wine takes the place of Windows. Its services run in the session
// of the user, by which IsWindowsService does not know them: whether there is a manager shows
// when it is asked.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

type service struct {
	ctx         context.Context
	program     Program
	interrupted int
	code        uint32
}

// Execute is the service. The manager sees its exit code: another one than 0 is a failure,
// after which it starts the service again.
func (s *service) Execute(args []string, requests <-chan svc.ChangeRequest, tell chan<- svc.Status) (specific bool, code uint32) {
	tell <- svc.Status{State: svc.StartPending, CheckPoint: 0, WaitHint: uint32(tellHint.Milliseconds())}
	log, err := begin(args[0])
	if err != nil {
		s.code = failure(err)
		return false, s.code // Windows has the words for it
	}
	defer log.Close()
	stop, ended := make(chan struct{}), make(chan uint32, 1)
	once := sync.OnceFunc(func() { close(stop) })
	go func() {
		ended <- uint32(supervise(s.ctx, stop, func(p progress) { tell <- status(p) }, startPatience, s.interrupted, func(ctx context.Context) int {
			fmt.Fprintf(log, "time=%s level=INFO msg=\"service begins\" name=%s args=%q\n", time.Now().Format(time.RFC3339Nano), args[0], os.Args[1:])
			code := s.program(ctx, os.Args[1:], log, log)
			fmt.Fprintf(log, "time=%s level=INFO msg=\"service ends\" exit_code=%d\n", time.Now().Format(time.RFC3339Nano), code)
			return code
		}))
	}()
	for {
		select {
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				tell <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				once()
			}
		case s.code = <-ended:
			return true, s.code
		}
	}
}

// status is p in the words of Windows.
func status(p progress) svc.Status {
	at := svc.Status{CheckPoint: p.checkpoint, WaitHint: uint32(p.hint.Milliseconds())}
	switch p.state {
	case starting:
		at.State = svc.StartPending
	case running:
		at.State, at.Accepts = svc.Running, svc.AcceptStop|svc.AcceptShutdown
	case stopping:
		at.State = svc.StopPending
	}
	return at
}

// begin goes to the folder of a service and opens its log. What Go says when the program
// crashes goes to a file of its own: the log's is renamed.
func begin(name string) (*logFile, error) {
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
		_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // without it the program works
		f.Close()
	}
	return openLog(logOf(folder, name), logBytes)
}

// failure is the number that Windows has for an error.
func failure(err error) uint32 {
	if no := syscall.Errno(0); errors.As(err, &no) && no != 0 {
		return uint32(no)
	}
	return uint32(windows.ERROR_EXCEPTION_IN_SERVICE)
}

// home is the folder of all services: their configurations and models.
func home() (string, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return "", fmt.Errorf("service: Windows does not say where ProgramData is: %w", err)
	}
	return filepath.Join(data, "eusn-stream"), nil
}

// Folder is that of one service: its data and its log.
func Folder(name string) (string, error) {
	all, err := home()
	return filepath.Join(all, name), err
}

func logOf(folder, name string) string { return filepath.Join(folder, name+".log") }
