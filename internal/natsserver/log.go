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

// ErrStore is the error of a server that cannot write to its store any more.
var ErrStore = errors.New("the embedded NATS server cannot write to its store and accepts no more messages until it is restarted")

const (
	repeatEvery = time.Minute // between two lines about what clients do of one kind
	mostKinds   = 64
)

// serverLog passes the server's log on. It finds fatal errors, which the server would
// otherwise only print, and a store that is broken for good. What clients can cause, also
// without a login, is one line of each kind in a minute.
type serverLog struct {
	log   *slog.Logger
	dir   string
	fatal chan string

	failed  chan struct{} // closed after failure is set
	failure error
	fail    sync.Once

	mu    sync.Mutex
	kinds map[string]*repeated // of lines about clients
}

// repeated is what is known of the lines of one kind.
type repeated struct {
	logged time.Time
	more   int // lines since then
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

// Noticef logs notices at level Debug, but for one: that a client reads too
// slowly tells an operator why it lost its connection.
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
	if args, ok := l.admit(msg, time.Now()); ok {
		l.log.Warn("nats: "+msg, args...)
	}
	l.examine(msg)
}

func (l *serverLog) Errorf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	if args, ok := l.admit(msg, time.Now()); ok {
		l.log.Error("nats: "+msg, args...)
	}
	l.examine(msg)
}

func (l *serverLog) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error("nats: " + msg)
	select {
	case l.fatal <- msg:
	default: // the first reason is the one to report
	}
}

// ofClient finds which client a line is about, and what happened to it up to the first
// text that the client may choose.
var ofClient = regexp.MustCompile(`(^| - )[a-z_]*id:\d+ - ("[^"]*" - )*([A-Za-z ]*)`)

// admit reports whether a line is logged, and what is added to it.
func (l *serverLog) admit(msg string, now time.Time) (args []any, ok bool) {
	m := ofClient.FindStringSubmatch(msg)
	if m == nil {
		return nil, true
	}
	kind := m[3]
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kinds[kind]
	if r == nil {
		if len(l.kinds) >= mostKinds {
			clear(l.kinds)
		}
		r = new(repeated)
		l.kinds[kind] = r
	}
	if now.Sub(r.logged) < repeatEvery {
		r.more++
		return nil, false
	}
	if r.more > 0 {
		args = []any{"others_since", r.more}
	}
	*r = repeated{logged: now}
	return args, true
}

// broken are what the server logs when it stores nothing any more, in a NATS stream, for a
// consumer or at all. After a failed write it answers nobody, so clients see timeouts
// alone.
var broken = []string{"critical write error", "failed to store a msg", "no space left", "disabling jetstream"}

// examine finds out whether a line means that the store is broken.
func (l *serverLog) examine(msg string) {
	lower := strings.ToLower(msg)
	for _, text := range broken {
		if strings.Contains(lower, text) {
			l.fail.Do(func() {
				remedy := remedyOf(lower)
				l.log.Error(ErrStore.Error()+": "+remedy, "dir", l.dir)
				l.failure = fmt.Errorf("natsserver: %s: %w: %s: %s", l.dir, ErrStore, msg, remedy)
				close(l.failed)
			})
			return
		}
	}
}

// remedyOf is what to do about a store that is broken.
func remedyOf(lower string) string {
	const kept = "; acknowledged messages are kept"
	switch {
	case strings.Contains(lower, "too many open files"):
		return "too many open files: find out who holds so many connections or files of this process, or raise its limit (RLIMIT_NOFILE), then restart" + kept
	case strings.Contains(lower, "no space left"), strings.Contains(lower, "quota"):
		return "free space, then restart" + kept
	case strings.Contains(lower, "permission denied"):
		return "give this user the right to write there, then restart" + kept
	}
	return "see the line before, then restart" + kept
}
