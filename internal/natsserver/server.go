package natsserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
)

const (
	// DefaultMaxPayload of the embedded server, bytes: commits of large
	// batches fit, and the server warns above it.
	DefaultMaxPayload = 8 << 20
	// InProcess is the Options.Port of a server without a listener.
	InProcess = 0
	// RandomPort is the Options.Port that lets the system choose.
	RandomPort = -1

	localhost          = "127.0.0.1"      // where it listens if nobody says otherwise
	serverStartTimeout = 30 * time.Second // recovery of a large store takes seconds, not minutes
)

// Options describe an embedded NATS server with a JetStream file store.
type Options struct {
	Dir        string // data directory; created if missing, with access for its owner only; one server at a time
	Port       int    // InProcess, RandomPort, or a TCP port
	SyncAlways bool   // fsync before each acknowledgement: survives power failure, about a disk sync per message
	MaxPayload int    // bytes; 0 = DefaultMaxPayload
	Log        *slog.Logger

	// Where it listens, and who may connect. An address that others than this
	// machine can reach needs TLS and Users: Start refuses it otherwise.
	Host      string   // of Port: a name or an address, 0.0.0.0 = all of this machine; empty = 127.0.0.1
	WebSocket string   // host:port for NATS over WebSocket, port 0 = any free one; empty = none
	Cert, Key string   // files of the server's certificate and its key; empty = no TLS
	ClientCA  string   // file of authorities: every client needs a certificate of one of them; empty = none needs one
	Users     []User   // empty: anybody
	Origins   []string // of web pages that may use WebSocket, such as https://plant.example; empty = those of the same host and port

	Connections int // clients at a time; 0 = Connections(), by the limit of open files

	// Hub is the URL of a server at a centre whose leaf node this one is, Domain the
	// JetStream domain of this server then, and HubTLS the TLS to the centre; nil = by the
	// URL, with the system's authorities.
	Hub, Domain string
	HubTLS      *tls.Config
}

// Server is a running server. It owns its data directory until Close.
type Server struct {
	ns      *server.Server
	self    nats.Option // how this process logs in
	web     bool        // it listens for WebSocket
	log     *serverLog
	release func()
	once    sync.Once
}

// Start locks the data directory, starts the server and returns when it
// accepts connections; the server then no longer depends on ctx. Errors name the
// directory or the address: directory in use by another process, not writable,
// port taken, store not readable.
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("natsserver: %w", err)
	}
	if o.Dir == "" {
		return nil, errors.New("natsserver: no data directory given")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.Host == "" {
		o.Host = localhost
	}
	door, err := o.door()
	if err != nil {
		return nil, err
	}
	if door.hub, err = o.hub(); err != nil {
		return nil, err
	}
	release, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	// Only with the lock: no other server of ours uses the directory now.
	repaired, err := repair(o.Dir)
	for _, dir := range repaired {
		o.Log.Warn("repaired a checksum file (meta.sum) that was missing or incomplete: without it the server does not load this NATS stream or consumer", "dir", dir)
	}
	if err != nil {
		o.Log.Warn("some configuration files of the store cannot be read", "err", err)
	}
	s := &Server{release: release}
	if err := s.start(ctx, o, door); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options, d *door) error {
	// The server reports a taken port only in its log, after opening the
	// store; asking first keeps the store out of it.
	for _, at := range d.addresses {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return fmt.Errorf("natsserver: cannot listen on %s: %w (choose another port or address, or connect to the server that is there)", at, err)
		}
		l.Close()
	}
	opts := &server.Options{
		ServerName: "eusn-stream", Host: o.Host, Port: o.Port, DontListen: o.Port == InProcess,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1}, // each partition has one
		JetStream:       true, StoreDir: o.Dir, SyncAlways: o.SyncAlways,
		MaxPayload: int32(o.MaxPayload), NoSigs: true, DisableJetStreamBanner: true,
		MaxConn: cmp.Or(o.Connections, Connections()),
	}
	if d.hub != nil {
		opts.LeafNode.Remotes, opts.JetStreamDomain = []*server.RemoteLeafOpts{d.hub}, o.Domain
	}
	var err error
	if s.self, err = d.open(opts); err != nil {
		return err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	s.ns = ns
	s.log = newServerLog(o.Log, o.Dir)
	ns.SetLoggerV2(s.log, false, false, false)
	ns.Start()
	if err := s.log.awaitStart(ctx, ns, o.Dir); err != nil {
		return err
	}
	if err := s.warm(ctx); err != nil {
		return fmt.Errorf("natsserver: %s: %w", o.Dir, err)
	}
	s.web = o.WebSocket != ""
	if o.SyncAlways {
		o.Log.Info("embedded NATS server started: every acknowledged message is on disk", "dir", o.Dir, "url", s.URL())
	} else {
		o.Log.Info("embedded NATS server started: acknowledged messages survive a killed process; a power failure can lose the last two minutes of them (--sync always prevents this)", "dir", o.Dir, "url", s.URL())
	}
	return nil
}

// warm asks JetStream one question before any client can. The account's first
// request makes the server subscribe to the answers; a second request that
// overtakes this subscription is never answered (seen in one of twenty starts
// with two clients, server 2.15.2).
func (s *Server) warm(ctx context.Context) error {
	nc, err := s.Connect("eusn-stream/start", nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	return natsclient.AwaitJetStream(ctx, nc)
}

// URL is where other processes reach the server; empty when it is in-process
// only.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// WebSocketURL is where clients over WebSocket reach the server; empty without
// Options.WebSocket.
func (s *Server) WebSocketURL() string {
	if !s.web {
		return ""
	}
	return s.ns.WebsocketURL()
}

// Failed is closed when the server cannot write to its store any more. Nothing but a
// restart of the server mends that. Err reports why.
func (s *Server) Failed() <-chan struct{} { return s.log.failed }

// Err is nil until Failed is closed.
func (s *Server) Err() error {
	select {
	case <-s.log.failed:
		return s.log.failure
	default:
		return nil
	}
}

// Room is how many bytes the server still stores by its own limit, which is
// three quarters of the disk space that was free when it started. ok is false
// if the server does not say.
func (s *Server) Room() (bytes int64, ok bool) {
	info, err := s.ns.Jsz(nil)
	if err != nil || info.Config.MaxStore <= 0 {
		return 0, false
	}
	return max(0, info.Config.MaxStore-int64(info.Store)), true
}

// Connect makes a connection inside the process, which needs no listener.
func (s *Server) Connect(name string, log *slog.Logger) (*nats.Conn, error) {
	nc, err := nats.Connect("", append(natsclient.LongLived(name, log), nats.InProcessServer(s.ns), s.self)...)
	if err != nil {
		return nil, fmt.Errorf("natsserver: in-process connection: %w", err)
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
		s.release()
	})
}

// lockDir creates dir, with access for its owner only, and keeps a second process
// out of it: two servers on one store both start, and acknowledged messages of one
// of them are lost.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsserver: cannot create the data directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile)
	release, err = dirlock.Take(path)
	switch {
	case errors.Is(err, dirlock.ErrHeld):
		return nil, fmt.Errorf("natsserver: data directory %s is in use by %s: stop it, connect to its server, or choose another directory%s", dir, dirlock.Holder(path), dirlock.Remedy(path))
	case err != nil:
		return nil, fmt.Errorf("natsserver: data directory %s is not writable: %w", dir, err)
	}
	return release, nil
}

// lockFile marks a directory that this package has run a server on.
const lockFile = "eusn.lock"
