package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// User may connect with a name and a password, and may use only the listed NATS subjects (with
// wildcards).
type User struct {
	Name      string
	Password  string // bcrypt hash of the password
	Publish   []string
	Deny      []string // exceptions from Publish
	Subscribe []string
}

// ErrOpen is the error for an address reachable from other machines, without TLS and a login.
var ErrOpen = errors.New("other machines can reach this address, so it requires TLS (a certificate and its key) and users")

// ErrWeb is the error for WebSocket without users.
var ErrWeb = errors.New("any web page in a browser on this machine could use WebSocket without a login, so it requires users")

// ErrExpired is the error for an expired certificate.
var ErrExpired = certs.ErrExpired

const (
	tlsTimeout = 10 // seconds for a handshake; the server's default of 2 is short on a loaded machine
)

// door is the access configuration: addresses, TLS, users.
type door struct {
	tls       *tls.Config // nil: no TLS
	users     []User
	addresses []string  // host:port of each listener
	websocket *endpoint // nil: no WebSocket
	origins   []string  // allowed origins of web pages
	hub       *server.RemoteLeafOpts
}

// endpoint is an address in the form of the server's options.
type endpoint struct {
	host string
	port int
}

// checkAccess checks the addresses, TLS and users of the options.
func (o *Options) checkAccess() (*door, error) {
	d := &door{users: o.Users, origins: o.Origins}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("natsserver: TLS: give both certificate and key, or neither")
	}
	if o.Cert != "" {
		var err error
		if d.tls, err = certs.ServerTLS(o.Cert, o.Key, o.ClientCA, o.Log); err != nil {
			return nil, fmt.Errorf("natsserver: %w", err)
		}
	}
	if o.Port != InProcess {
		if err := d.addAddress(o.Host, o.Port); err != nil {
			return nil, err
		}
	}
	if o.WebSocket != "" {
		web, err := parseEndpoint(o.WebSocket)
		if err != nil {
			return nil, fmt.Errorf("natsserver: WebSocket address %q, want host:port: %w", o.WebSocket, err)
		}
		if err := d.addAddress(web.host, web.port); err != nil {
			return nil, err
		}
		if len(d.users) == 0 {
			return nil, fmt.Errorf("natsserver: WebSocket at %s: %w", o.WebSocket, ErrWeb)
		}
		d.websocket = web
	}
	return d, nil
}

// parseEndpoint parses host:port. An empty host means all addresses.
func parseEndpoint(addr string) (*endpoint, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if port == 0 {
		return &endpoint{host, RandomPort}, nil
	}
	return &endpoint{host, int(port)}, nil
}

// Limits of the clients of a server.
const (
	maxConnections = 16384
	// ownFiles is the number of open files of the store and the rest of the process.
	ownFiles = 768
)

// Connections returns the maximum number of clients of an embedded server: half of the open
// files that remain after the process's own files, so that clients never exhaust the store's
// files.
func Connections() int { return listen.Share(maxConnections, ownFiles, 2) }

// Needs returns the open files of the embedded server.
func Needs() []listen.Need {
	return []listen.Need{{What: "clients of the embedded NATS server", Files: Connections()}, {What: "its store and the other files of this process", Files: ownFiles}}
}

// addAddress adds an address for the server to listen on.
func (d *door) addAddress(host string, port int) error {
	if !urls.IsLocal(host) && (d.tls == nil || len(d.users) == 0) {
		return fmt.Errorf("natsserver: %s: %w", net.JoinHostPort(host, strconv.Itoa(max(0, port))), ErrOpen)
	}
	d.addresses = append(d.addresses, net.JoinHostPort(host, strconv.Itoa(max(0, port))))
	return nil
}

// apply sets the server's options. It returns the login of this process: full rights, with a
// key that exists only in this process.
func (d *door) apply(opts *server.Options) (self nats.Option, err error) {
	if d.tls != nil {
		opts.TLSConfig, opts.TLS, opts.TLSTimeout = d.tls, true, tlsTimeout
	}
	if d.websocket != nil {
		opts.Websocket = server.WebsocketOpts{Host: d.websocket.host, Port: d.websocket.port, TLSConfig: d.tls, NoTLS: d.tls == nil, HandshakeTimeout: tlsTimeout * time.Second,
			SameOrigin: len(d.origins) == 0, AllowedOrigins: d.origins}
	}
	if len(d.users) == 0 {
		return func(*nats.Options) error { return nil }, nil
	}
	for _, u := range d.users {
		opts.Users = append(opts.Users, &server.User{Username: u.Name, Password: u.Password, Permissions: &server.Permissions{
			Publish: permissionsFor(u.Publish, u.Deny), Subscribe: permissionsFor(u.Subscribe, nil),
		}})
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("natsserver: key of this process: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("natsserver: key of this process: %w", err)
	}
	opts.Nkeys = []*server.NkeyUser{{Nkey: public}}
	return nats.Nkey(public, pair.Sign), nil
}

// permissionsFor allows the listed subjects except the denied subjects, and nothing for an
// empty list: the server reads an empty list as everything.
func permissionsFor(subjects, denied []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects, Deny: denied}
}
