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

// Access says who may send to an input that listens.
type Access struct {
	User, Password string      // empty User: anybody
	TLS            *tls.Config // nil: none
	Open           bool        // anybody in the network may send, in clear
	PerAddress     int         // connections from one address; 0 = a quarter of all
	Log            *slog.Logger
}

// Check refuses an address that others than this machine reach, unless they
// must log in over TLS, or the network is said to be trusted. login: the input
// has one.
func (a Access) Check(key, addr string, login bool) error {
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

// wrongPause is how long a wrong password waits for its answer. Its connection keeps its
// place until then, so the limit for an address bounds how many are tried in a second.
const wrongPause = time.Second

// Allows compares a login, in a time that does not tell how much of it is right.
func (a Access) Allows(user, password string) bool {
	right := a.isRight(user, password)
	if !right && password != "" { // a client that asks whether it must log in has none
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

// Listen listens on a TCP address, with TLS where a has it.
func (a Access) Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	most := Connections()
	l = listen.Limit(l, listen.Limits{Connections: most, PerAddress: cmp.Or(a.PerAddress, most/4), Name: addr, Log: a.Log})
	if a.TLS != nil {
		l = tls.NewListener(l, a.TLS)
	}
	return l, nil
}

const (
	mostConnections = 16384
	// OwnFiles is what the outbox, the clients of the metrics port and the rest of the process
	// have open, at most.
	OwnFiles = 512
)

// Connections is how many a listener has at a time: a quarter of the files that the process
// may open beyond its own, because there are up to three listeners. Others wait until one
// ends: the system has a queue for them.
func Connections() int { return listen.Share(mostConnections, OwnFiles, 4) }
