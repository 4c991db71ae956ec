package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrStore is the error of a server that can no longer write to its store.
var ErrStore = errors.New("the embedded NATS server cannot write to its store and accepts no more messages until it is restarted")

const (
	repeatEvery = time.Minute // interval between two log lines of one kind about clients
	maxKinds    = 64
)

// serverLog forwards the server's log. It detects fatal errors, which the server would
// otherwise only print, and a failed store. Lines caused by clients, even without a login, are
// limited to one per kind and minute.
type serverLog struct {
	log   *slog.Logger
	dir   string
	fatal chan string

	failed   chan struct{} // closed after failure is set
	failure  error
	failOnce sync.Once

	mu    sync.Mutex
	kinds map[string]*repeated // kinds of lines about clients
}

// repeated counts the suppressed lines of one kind.
type repeated struct {
	logged     time.Time
	suppressed int // lines since then
}

func newServerLog(log *slog.Logger, dir string) *serverLog {
	return &serverLog{log: log, dir: dir, fatal: make(chan string, 1), failed: make(chan struct{}), kinds: map[string]*repeated{}}
}

func (l *serverLog) awaitStart(ctx context.Context, ns *server.Server, dir string) error {
	ready := make(chan bool, 1)
	go func() { ready <- ns.ReadyForConnections(serverStartTimeout) }()
	select {
	case <-ctx.Done():
		return fmt.Errorf("natsserver: %s: %w", dir, ctx.Err())
	case msg := <-l.fatal:
		ns.Shutdown()
		return fmt.Errorf("natsserver: %s: %s", dir, msg)
	case ok := <-ready:
		select {
		case msg := <-l.fatal:
			return fmt.Errorf("natsserver: %s: %s", dir, msg)
		default:
		}
		if !ok || !ns.JetStreamEnabled() {
			return fmt.Errorf("natsserver: the server on %s did not start within %v", dir, serverStartTimeout)
		}
		return nil
	}
}

// Noticef logs notices at level Debug, except slow consumers: this line tells an operator why a
// client lost its connection.
func (l *serverLog) Noticef(f string, v ...any) {
	if strings.Contains(f, "Slow Consumer") {
		l.Warnf(f, v...)
		return
	}
	l.Debugf(f, v...)
}

func (l *serverLog) Debugf(f string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Tracef(f string, v ...any) {}

func (l *serverLog) Warnf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	if args, ok := l.limitLine(msg, time.Now()); ok {
		l.log.Warn("nats: "+msg, args...)
	}
	l.detectFailure(msg)
}

func (l *serverLog) Errorf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	if args, ok := l.limitLine(msg, time.Now()); ok {
		l.log.Error("nats: "+msg, args...)
	}
	l.detectFailure(msg)
}

func (l *serverLog) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error("nats: " + msg)
	select {
	case l.fatal <- msg:
	default: // the first reason is reported
	}
}

// clientPattern finds the client and the event in a log line about a client, up to the first
// text that the client controls.
var clientPattern = regexp.MustCompile(`(^| - )[a-z_]*id:\d+ - ("[^"]*" - )*([A-Za-z ]*)`)

// limitLine reports whether a line is logged, with additional arguments.
func (l *serverLog) limitLine(msg string, now time.Time) (args []any, ok bool) {
	m := clientPattern.FindStringSubmatch(msg)
	if m == nil {
		return nil, true
	}
	kind := m[3]
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kinds[kind]
	if r == nil {
		if len(l.kinds) >= maxKinds {
			clear(l.kinds)
		}
		r = new(repeated)
		l.kinds[kind] = r
	}
	if now.Sub(r.logged) < repeatEvery {
		r.suppressed++
		return nil, false
	}
	if r.suppressed > 0 {
		args = []any{"others_since", r.suppressed}
	}
	*r = repeated{logged: now}
	return args, true
}

// failureTexts are the server's log texts after a failed write, in a NATS stream, for a
// consumer or in general. After a failed write the server answers no requests, so clients see
// only timeouts.
var failureTexts = []string{"critical write error", "failed to store a msg", "no space left", "disabling jetstream"}

// detectFailure detects a log line about a failed store.
func (l *serverLog) detectFailure(msg string) {
	lower := strings.ToLower(msg)
	for _, text := range failureTexts {
		if strings.Contains(lower, text) {
			l.failOnce.Do(func() {
				remedy := remedyOf(lower)
				l.log.Error(ErrStore.Error()+": "+remedy, "dir", l.dir)
				l.failure = fmt.Errorf("natsserver: %s: %w: %s: %s", l.dir, ErrStore, msg, remedy)
				close(l.failed)
			})
			return
		}
	}
}

// remedyOf returns the advice for a failed store.
func remedyOf(lower string) string {
	const suffix = "; acknowledged messages are kept"
	switch {
	case strings.Contains(lower, "too many open files"):
		return "too many open files: find the cause of the open connections or files of this process, or raise its limit (RLIMIT_NOFILE), then restart" + suffix
	case strings.Contains(lower, "no space left"), strings.Contains(lower, "quota"):
		return "free space, then restart" + suffix
	case strings.Contains(lower, "permission denied"):
		return "grant this user write permission, then restart" + suffix
	}
	return "see the previous log line, then restart" + suffix
}
