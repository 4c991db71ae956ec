package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

const (
	// DefaultMaxPayload of the embedded server, bytes: commits of large
	// batches fit, and the server warns above it.
	DefaultMaxPayload = 8 << 20
	// InProcess is the Options.Port of a server without a listener.
	InProcess = 0
	// RandomPort is the Options.Port that lets the system choose.
	RandomPort = -1

	localhost          = "127.0.0.1"      // it listens here alone: it asks nobody who they are
	serverStartTimeout = 30 * time.Second // recovery of a large store takes seconds, not minutes
)

// Options describe an embedded NATS server with a JetStream file store.
type Options struct {
	Dir        string // data directory, made if missing, then for its owner alone; one server at a time
	Port       int    // InProcess, RandomPort, or a TCP port
	SyncAlways bool   // fsync before each acknowledgement: survives power failure, about a disk sync per message
	MaxPayload int    // bytes; 0 = DefaultMaxPayload
	Log        *slog.Logger
}

// Server is an embedded NATS server that owns its data directory.
type Server struct {
	ns   *server.Server
	lock *dirLock
	once sync.Once
}

// Start locks the data directory, starts the server and returns when it
// accepts connections. Errors name the directory or the address: directory in
// use by another process, not writable, port taken, store not readable.
func Start(o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("pipeline: embedded server: no data directory given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	// Only now: no server of ours is at work there.
	repaired, err := repair(o.Dir)
	for _, dir := range repaired {
		o.Log.Warn("a checksum that the server had not written to its end was made anew from the configuration beside it (meta.sum of meta.inf): without it the server would leave this out", "dir", dir)
	}
	if err != nil {
		o.Log.Warn("the store's configurations cannot all be read", "err", err)
	}
	s := &Server{lock: lock}
	if err := s.start(o); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(o Options) error {
	if o.Port > 0 {
		// The server reports a taken port only in its log, after opening the
		// store; asking first keeps the store out of it.
		l, err := net.Listen("tcp", net.JoinHostPort(localhost, strconv.Itoa(o.Port)))
		if err != nil {
			return fmt.Errorf("pipeline: embedded server cannot listen on %s:%d: %w (choose another port, or connect to the server that is there)", localhost, o.Port, err)
		}
		l.Close()
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "eusn-stream", Host: localhost, Port: o.Port, DontListen: o.Port == InProcess,
		JetStream: true, StoreDir: o.Dir, SyncAlways: o.SyncAlways,
		MaxPayload: int32(o.MaxPayload), NoSigs: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return fmt.Errorf("pipeline: embedded server: %w", err)
	}
	s.ns = ns
	log := &serverLog{log: o.Log, dir: o.Dir, fatal: make(chan string, 1)}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()
	if err := log.awaitStart(ns, o.Dir); err != nil {
		return err
	}
	if err := s.warm(); err != nil {
		return fmt.Errorf("pipeline: embedded server on %s: %w", o.Dir, err)
	}
	if o.SyncAlways {
		o.Log.Info("embedded NATS server started; every acknowledged message is on disk", "dir", o.Dir, "url", s.URL())
	} else {
		o.Log.Info("embedded NATS server started; acknowledged messages survive a killed process, a power failure may lose the last two minutes (--sync always prevents that)", "dir", o.Dir, "url", s.URL())
	}
	return nil
}

// warm asks JetStream one question before anybody else can. The account's
// first request makes the server subscribe to the answers; a second one that
// overtakes this subscription never gets its own (seen in one of twenty
// starts with two clients, server 2.15.2).
func (s *Server) warm() error {
	nc, err := s.Connect("eusn-stream/start", nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	return natsclient.AwaitJetStream(context.Background(), nc)
}

// URL is where other processes reach the server; empty when it is in-process
// only.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Room is how many bytes the server still stores by its own limit, three
// quarters of what was free when it started; false where it does not say.
func (s *Server) Room() (bytes int64, ok bool) {
	info, err := s.ns.Jsz(nil)
	if err != nil || info.Config.MaxStore <= 0 {
		return 0, false
	}
	return max(0, info.Config.MaxStore-int64(info.Store)), true
}

// Connect makes a connection inside the process, which needs no listener.
func (s *Server) Connect(name string, log *slog.Logger) (*nats.Conn, error) {
	nc, err := nats.Connect("", append(natsclient.LongLived(name, log), nats.InProcessServer(s.ns))...)
	if err != nil {
		return nil, fmt.Errorf("pipeline: in-process connection to the embedded server: %w", err)
	}
	return nc, nil
}

// Close stops the server, waits until its files are closed and releases the
// data directory. Connections should be closed before; calling it again does
// nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.ns != nil {
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
		}
		s.lock.release()
	})
}

// serverLog passes the server's log on and catches its fatal errors, which
// the server would otherwise only print.
type serverLog struct {
	log   *slog.Logger
	dir   string
	fatal chan string
}

func (l *serverLog) awaitStart(ns *server.Server, dir string) error {
	ready := make(chan bool, 1)
	go func() { ready <- ns.ReadyForConnections(serverStartTimeout) }()
	select {
	case msg := <-l.fatal:
		ns.Shutdown()
		return fmt.Errorf("pipeline: embedded server on %s: %s", dir, msg)
	case ok := <-ready:
		select {
		case msg := <-l.fatal:
			return fmt.Errorf("pipeline: embedded server on %s: %s", dir, msg)
		default:
		}
		if !ok || !ns.JetStreamEnabled() {
			return fmt.Errorf("pipeline: embedded server on %s did not start within %v", dir, serverStartTimeout)
		}
		return nil
	}
}

// A connection that the server closes for reading too slowly is a notice to
// it; to an operator it is why a client lost its connection.
func (l *serverLog) Noticef(f string, v ...any) {
	if strings.Contains(f, "Slow Consumer") {
		l.Warnf(f, v...)
		return
	}
	l.Debugf(f, v...)
}
func (l *serverLog) Debugf(f string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Tracef(f string, v ...any) {}
func (l *serverLog) Warnf(f string, v ...any)  { l.log.Warn("nats: " + fmt.Sprintf(f, v...)) }
func (l *serverLog) Errorf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error("nats: " + msg)
	// After a failed write the server takes nothing into that NATS stream
	// again and answers nobody, so clients see timeouts alone.
	if strings.Contains(msg, "no space left") || strings.Contains(msg, "failed to store a msg") {
		l.log.Error("the embedded NATS server could not write its store and takes nothing more until it is started again: free space, then restart; everything acknowledged is kept", "dir", l.dir)
	}
}
func (l *serverLog) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error("nats: " + msg)
	select {
	case l.fatal <- msg:
	default: // the first reason is the one to report
	}
}

// dirLock keeps a second process out of a data directory: two servers on one
// store both start, and acknowledged messages of one of them vanish.
type dirLock struct{ file *os.File }

// lockFile is there in a directory that an eusn-stream has run on.
const lockFile = "eusn.lock"
