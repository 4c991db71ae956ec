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
	// DefaultMaxPayload is the embedded server's maximum payload in bytes: commits of large
	// batches fit, and the server warns above this size.
	DefaultMaxPayload = 8 << 20
	// InProcess is the Options.Port of a server without a listener.
	InProcess = 0
	// RandomPort is the Options.Port for a port chosen by the system.
	RandomPort = -1

	localhost          = "127.0.0.1"      // default host
	serverStartTimeout = 30 * time.Second // recovery of a large store takes seconds, not minutes
)

// Options configure an embedded NATS server with a JetStream file store.
type Options struct {
	Dir        string // data directory; created if missing, with access only for its owner; one server at a time
	Port       int    // InProcess, RandomPort, or a TCP port
	SyncAlways bool   // fsync before each acknowledgement: survives a power failure, about one disk sync per message
	MaxPayload int    // bytes; 0 = DefaultMaxPayload
	Log        *slog.Logger

	// Addresses and users. Start refuses an address reachable from other machines without TLS
	// and Users.
	Host      string   // of Port: a name or an address, 0.0.0.0 = all of this machine; empty = 127.0.0.1
	WebSocket string   // host:port for NATS over WebSocket, port 0 = any free port; empty = no WebSocket
	Cert, Key string   // files of the server's certificate and key; empty = no TLS
	ClientCA  string   // file of authorities: every client must have a certificate of an authority; empty = no client certificates
	Users     []User   // empty = no login
	Origins   []string // of web pages that may use WebSocket, such as https://plant.example; empty = the same host and port

	Connections int // maximum number of clients; 0 = Connections(), by the limit of open files

	// Hub is the URL of a central server; this server is then a leaf node with the JetStream
	// domain Domain. HubTLS is the TLS configuration for the central server; nil = by the URL,
	// with the system's authorities.
	Hub, Domain string
	HubTLS      *tls.Config
}

// Server is a running server. It owns its data directory until Close.
type Server struct {
	ns      *server.Server
	self    nats.Option // login of this process
	web     bool        // whether it listens for WebSocket
	log     *serverLog
	dir     string // with a note; empty until it is written
	release func()
	once    sync.Once
}

// Start locks the data directory, starts the server and returns when the server accepts
// connections; afterwards the server is independent of ctx. Errors name the directory or the address: directory in use by another process,
// not writable, port taken, store not readable.
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
	door, err := o.checkAccess()
	if err != nil {
		return nil, err
	}
	if door.hub, err = o.hubRemote(); err != nil {
		return nil, err
	}
	release, err := lockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	// The lock is held: no other embedded server uses the directory.
	repaired, err := repairLocked(o.Dir)
	for _, dir := range repaired {
		o.Log.Warn("repaired a checksum file (meta.sum) that was missing or incomplete: without it the server does not load this NATS stream or consumer", "dir", dir)
	}
	if err != nil {
		o.Log.Warn("some configuration files of the store cannot be read", "err", err)
	}
	s := &Server{release: release}
	if err := s.startServer(ctx, o, door); err != nil {
		s.Close()
		return nil, err
	}
	s.dir = o.Dir
	if err := s.writeNote(o.Dir); err != nil {
		o.Log.Warn("other commands do not find this server without --nats-url", "url", s.URL(), "err", err)
	}
	return s, nil
}

func (s *Server) startServer(ctx context.Context, o Options, d *door) error {
	// The server reports a taken port only in its log, after opening the store; this check
	// protects the store.
	for _, addr := range d.addresses {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("natsserver: %w (choose another port or address, or connect to the existing server)", err)
		}
		l.Close()
	}
	opts := &server.Options{
		ServerName: "eusn-stream", Host: o.Host, Port: o.Port, DontListen: o.Port == InProcess,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1}, // each partition has one consumer
		JetStream:       true, StoreDir: o.Dir, SyncAlways: o.SyncAlways,
		MaxPayload: int32(o.MaxPayload), NoSigs: true, DisableJetStreamBanner: true,
		MaxConn: cmp.Or(o.Connections, Connections()),
	}
	if d.hub != nil {
		opts.LeafNode.Remotes, opts.JetStreamDomain = []*server.RemoteLeafOpts{d.hub}, o.Domain
	}
	var err error
	if s.self, err = d.apply(opts); err != nil {
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
	if err := s.primeJetStream(ctx); err != nil {
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

// primeJetStream sends one request to JetStream before the first client. The account's first
// request makes the server subscribe to the answers; a second request that overtakes this
// subscription is never answered (observed in one of twenty starts with two clients, server
// 2.15.2).
func (s *Server) primeJetStream(ctx context.Context) error {
	nc, err := s.Connect("eusn-stream/start", nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	return natsclient.AwaitJetStream(ctx, nc)
}

// URL returns the server's address for other processes; empty for an in-process server.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// WebSocketURL returns the server's address for clients over WebSocket; empty without
// Options.WebSocket.
func (s *Server) WebSocketURL() string {
	if !s.web {
		return ""
	}
	return s.ns.WebsocketURL()
}

// Failed returns a channel that is closed when the server can no longer write to its store.
// Only a restart of the server helps. Err returns the reason.
func (s *Server) Failed() <-chan struct{} { return s.log.failed }

// Err returns nil until Failed is closed.
func (s *Server) Err() error {
	select {
	case <-s.log.failed:
		return s.log.failure
	default:
		return nil
	}
}

// FreeBytes returns the remaining bytes of the server's own limit, which is three quarters of
// the free disk space at its start; ok is false without a known limit.
func (s *Server) FreeBytes() (bytes int64, ok bool) {
	info, err := s.ns.Jsz(nil)
	if err != nil || info.Config.MaxStore <= 0 {
		return 0, false
	}
	return max(0, info.Config.MaxStore-int64(info.Store)), true
}

// Connect makes a connection inside the process, without a listener.
func (s *Server) Connect(name string, log *slog.Logger) (*nats.Conn, error) {
	nc, err := nats.Connect("", append(natsclient.LongLived(name, log), nats.InProcessServer(s.ns), s.self)...)
	if err != nil {
		return nil, fmt.Errorf("natsserver: in-process connection: %w", err)
	}
	return nc, nil
}

// Close stops the server, waits until its files are closed and releases the data directory.
// Close connections first; a second call does nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.dir != "" {
			_ = removeNote(s.dir) // otherwise readers compare the id
		}
		if s.ns != nil {
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
		}
		s.release()
	})
}

// lockDir creates dir with access only for its owner, and locks it against a second process:
// two servers on one store would both start, and acknowledged messages of one server would be
// lost.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsserver: cannot create the data directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFile)
	release, err = dirlock.Take(path)
	switch {
	case errors.Is(err, dirlock.ErrHeld):
		return nil, fmt.Errorf("natsserver: data directory %s is %w by %s: stop it, connect to its server, or choose another directory%s", dir, ErrInUse, dirlock.DescribeHolder(path), dirlock.Remedy(path))
	case err != nil:
		return nil, fmt.Errorf("natsserver: data directory %s is not writable: %w", dir, err)
	}
	return release, nil
}

// ErrInUse is the error for a data directory that another process uses.
var ErrInUse = errors.New("in use")

// lockFile marks a data directory of this package.
const lockFile = "eusn.lock"
