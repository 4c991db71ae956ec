package gateway

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
)

// Access configures the permitted senders of a listening input.
type Access struct {
	User, Password string      // empty User: everybody
	TLS            *tls.Config // nil: none
	Open           bool        // every host in the network may send, without encryption
	PerAddress     int         // connections from one address; 0 = a quarter of all
	Others         int         // open files of other parts of the process, such as an embedded server
	Log            *slog.Logger
}

// CheckAddress refuses an address reachable from other machines, unless senders must log in
// over TLS, or the network is declared as trusted. login: the input has a login.
func (a Access) CheckAddress(key, addr string, login bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("gateway: %s: %w", key, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || a.Open {
		return nil
	}
	if !login {
		return fmt.Errorf("gateway: %s %s: others than this machine can reach this address, and lines have no login: set gateway.insecure: true if you trust everybody in that network, or listen on 127.0.0.1", key, addr)
	}
	lacks := ""
	switch {
	case a.User == "" && a.TLS == nil:
		lacks = "gateway.user with gateway.password, and gateway.tls.cert with gateway.tls.key"
	case a.User == "":
		lacks = "gateway.user with gateway.password"
	case a.TLS == nil:
		lacks = "gateway.tls.cert with gateway.tls.key, because the password would be sent in clear"
	default:
		return nil
	}
	return fmt.Errorf("gateway: %s %s: others than this machine can reach this address: set %s; or gateway.insecure: true if you trust everybody in that network; or listen on 127.0.0.1", key, addr, lacks)
}

// wrongPause is how long a wrong password waits for an answer. The connection keeps its
// place until then, so the limit for an address bounds the attempts per second.
const wrongPause = time.Second

// Allows compares a login in constant time.
func (a Access) Allows(user, password string) bool {
	right := a.isRight(user, password)
	if !right && password != "" { // a client that asks whether a login is required has no password
		time.Sleep(wrongPause)
	}
	return right
}

func (a Access) isRight(user, password string) bool {
	if a.User == "" {
		return true
	}
	same := func(x, y string) int {
		p, q := sha256.Sum256([]byte(x)), sha256.Sum256([]byte(y))
		return subtle.ConstantTimeCompare(p[:], q[:])
	}
	return same(user, a.User)&same(password, a.Password) == 1
}

// Listen listens on a TCP address, with TLS if configured in a.
func (a Access) Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	most := Connections(a.Others)
	l = listen.Limit(l, listen.Limits{Connections: most, PerAddress: cmp.Or(a.PerAddress, most/4), Name: addr, Log: a.Log})
	if a.TLS != nil {
		l = tls.NewListener(l, a.TLS)
	}
	return l, nil
}

const (
	mostConnections = 16384
	// OwnFiles is the largest number of open files of the outbox, the clients of the
	// metrics port and the rest of the process.
	OwnFiles = 512
)

// Connections returns how many connections a listener accepts at a time: a quarter of
// the files available to the process beyond its own, because there are up to three
// listeners. others are open files of other parts of the process. Further connections wait
// in the system's queue.
func Connections(others int) int { return listen.Share(mostConnections, OwnFiles+others, 4) }
