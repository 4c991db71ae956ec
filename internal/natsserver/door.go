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
)

// User may connect, with a name and a password. Subjects are NATS's, wildcards
// included. A client may use no other subject.
type User struct {
	Name      string
	Password  string // its bcrypt hash
	Publish   []string
	Deny      []string // may not be published to, although Publish allows it
	Subscribe []string
}

// ErrOpen is the error for an address that others than this machine can reach,
// without TLS and a login.
var ErrOpen = errors.New("others than this machine can reach this address, so it needs TLS (a certificate and its key) and users")

// ErrWeb is the error for WebSocket without users.
var ErrWeb = errors.New("any web page that a browser of this machine shows could use WebSocket without a login, so it needs users")

// ErrExpired is the error for a certificate whose time is over.
var ErrExpired = certs.ErrExpired

const (
	tlsTimeout = 10 // seconds for a handshake; the server's 2 are short on a loaded machine
)

// door is how clients get in: addresses, TLS, users.
type door struct {
	tls       *tls.Config // nil: none
	users     []User
	addresses []string  // host:port of all
	websocket *endpoint // nil: none
	origins   []string  // of web pages
	hub       *server.RemoteLeafOpts
}

// endpoint is an address as the server's options have it.
type endpoint struct {
	host string
	port int
}

// door checks what the options say of addresses, TLS and users.
func (o *Options) door() (*door, error) {
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
		if err := d.add(o.Host, o.Port); err != nil {
			return nil, err
		}
	}
	if o.WebSocket != "" {
		at, err := parseEndpoint(o.WebSocket)
		if err != nil {
			return nil, fmt.Errorf("natsserver: WebSocket address %q, want host:port: %w", o.WebSocket, err)
		}
		if err := d.add(at.host, at.port); err != nil {
			return nil, err
		}
		if len(d.users) == 0 {
			return nil, fmt.Errorf("natsserver: WebSocket at %s: %w", o.WebSocket, ErrWeb)
		}
		d.websocket = at
	}
	return d, nil
}

// parseEndpoint reads host:port. Without a host it is all addresses.
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

// Limits of what the clients of a server may have.
const (
	mostConnections = 16384
	// ownFiles is what the store and the rest of the process have open.
	ownFiles = 768
)

// Connections is how many clients an embedded server has at a time: half of the files
// that the process may open beyond its own, so that clients never leave the store without.
func Connections() int { return listen.Share(mostConnections, ownFiles, 2) }

// Needs are the files that the embedded server may have open.
func Needs() []listen.Need {
	return []listen.Need{{What: "clients of the embedded NATS server", Files: Connections()}, {What: "its store, and what else this process has open", Files: ownFiles}}
}

// add notes an address that the server will listen on.
func (d *door) add(host string, port int) error {
	if !Local(host) && (d.tls == nil || len(d.users) == 0) {
		return fmt.Errorf("natsserver: %s: %w", net.JoinHostPort(host, strconv.Itoa(max(0, port))), ErrOpen)
	}
	d.addresses = append(d.addresses, net.JoinHostPort(host, strconv.Itoa(max(0, port))))
	return nil
}

// Local reports whether only this machine reaches an address with that host.
func Local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// open puts all into the server's options. It returns how this process logs in:
// it may do anything, with a key that lives as long as the process.
func (d *door) open(to *server.Options) (self nats.Option, err error) {
	if d.tls != nil {
		to.TLSConfig, to.TLS, to.TLSTimeout = d.tls, true, tlsTimeout
	}
	if d.websocket != nil {
		to.Websocket = server.WebsocketOpts{Host: d.websocket.host, Port: d.websocket.port, TLSConfig: d.tls, NoTLS: d.tls == nil, HandshakeTimeout: tlsTimeout * time.Second,
			SameOrigin: len(d.origins) == 0, AllowedOrigins: d.origins}
	}
	if len(d.users) == 0 {
		return func(*nats.Options) error { return nil }, nil
	}
	for _, u := range d.users {
		to.Users = append(to.Users, &server.User{Username: u.Name, Password: u.Password, Permissions: &server.Permissions{
			Publish: only(u.Publish, u.Deny), Subscribe: only(u.Subscribe, nil),
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
	to.Nkeys = []*server.NkeyUser{{Nkey: public}}
	return nats.Nkey(public, pair.Sign), nil
}

// only allows the subjects of a list but for those denied, and none without any: the
// server takes an empty list for all.
func only(subjects, denied []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects, Deny: denied}
}
