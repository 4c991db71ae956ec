package metrics

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/eusn-stream/eusn-stream/internal/webguard"
)

// Access says who may ask a server, by the paths of files. They are read at the
// start, and again when they have changed, at most once a second; a file that
// cannot be read then changes nothing and is logged. The zero value lets
// everybody in, without TLS.
type Access struct {
	Cert, Key  string // TLS: certificate and key of the server, PEM; both or neither
	ClientCA   string // TLS: only clients with a certificate of these authorities, PEM; needs Cert
	Users      string // login with a name and a password: lines of name:hash, bcrypt, as htpasswd -B writes
	TokenFile  string // login with a bearer token: a token on each line
	OpenHealth bool   // /healthz and /readyz without login and client certificate
	Insecure   bool   // others than this machine may ask without TLS and a login
}

// check refuses an address that others than this machine reach, without TLS and a login
// or client certificates.
func (a *Access) check(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || a.Insecure || a.Cert != "" && (a.login() || a.ClientCA != "") {
		return nil
	}
	return fmt.Errorf("metrics: %s: %w", addr, ErrOpen)
}

// login reports whether clients must log in. Either of Users and TokenFile will do.
func (a *Access) login() bool { return a.Users != "" || a.TokenFile != "" }

const (
	tlsLeast    = tls.VersionTLS12
	maxPassword = 72 // bytes; bcrypt looks at no more, so a longer one would not be the one that was hashed
	// wrongPause is how long a wrong password holds up the next one: four guesses a
	// second, and a fifth of a core for their hashes at bcrypt's cost of 10.
	wrongPause = 250 * time.Millisecond
	queueTime  = 5 * time.Second // for the hashes of others
	complain   = time.Minute     // between two lines in the log about refused logins
)

// door checks who asks.
type door struct {
	access Access
	files  keyring
	log    *slog.Logger
	pause  time.Duration // wrongPause, but for tests

	browsers *webguard.Guard

	place chan struct{} // one password is hashed at a time
	salt  [32]byte

	mu      sync.Mutex
	known   map[[32]byte]bool // logins whose password was right, salted: their hash is not computed again
	refused int               // logins since the last line about them
	told    time.Time
}

// open reports an error if a file cannot be used.
func (a Access) open(log *slog.Logger) (*door, error) {
	browsers, err := webguard.New(webguard.Options{Login: a.login() || a.ClientCA != "", Reads: true})
	if err != nil {
		return nil, err
	}
	d := &door{access: a, browsers: browsers, log: log, pause: wrongPause, place: make(chan struct{}, 1), known: map[[32]byte]bool{}}
	d.files = keyring{access: a, log: log, every: rereadEvery}
	_, _ = rand.Read(d.salt[:]) // it never fails
	return d, d.files.open()
}

// listen adds TLS to a listener.
func (d *door) listen(l net.Listener) net.Listener {
	if d.access.Cert == "" {
		return l
	}
	// Sessions are not resumed: a client's certificate is looked at anew each time.
	return tls.NewListener(l, &tls.Config{MinVersion: tlsLeast, SessionTicketsDisabled: true, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k := d.files.now()
		c := &tls.Config{MinVersion: tlsLeast, SessionTicketsDisabled: true, Certificates: []tls.Certificate{k.pair}, ClientCAs: k.clients}
		switch {
		case d.access.ClientCA != "" && d.access.OpenHealth:
			c.ClientAuth = tls.VerifyClientCertIfGiven // guard refuses the others
		case d.access.ClientCA != "":
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return c, nil
	}})
}

// guard lets only those through to next who may ask. Every path of a server is
// behind it.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.browsers.CheckRequest(r); err != nil {
			answer(w, http.StatusForbidden, err.Error())
			return
		}
		health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case health && d.access.OpenHealth:
		case d.access.ClientCA != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0):
			answer(w, http.StatusForbidden, "give a client certificate of an authority in metrics.tls.ca")
			return
		case d.access.login() && !d.loggedIn(w, r):
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errBusy: others' passwords are being checked.
var errBusy = errors.New("too many logins at a time: try again")

// loggedIn answers a request that does not log in.
func (d *door) loggedIn(w http.ResponseWriter, r *http.Request) bool {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	keys, right := d.files.now(), false
	var err error
	if strings.EqualFold(scheme, "Bearer") {
		right = keys.hasToken(strings.TrimSpace(token))
	} else if user, password, ok := r.BasicAuth(); ok {
		right, err = d.check(r.Context(), keys, user, password)
	}
	switch {
	case right:
		return true
	case err != nil:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, err.Error())
		return false
	case header != "": // a browser's first request has none
		d.complain(r.RemoteAddr)
	}
	if d.access.Users != "" {
		w.Header().Add("WWW-Authenticate", `Basic realm="eusn-stream", charset="UTF-8"`)
	}
	if d.access.TokenFile != "" {
		w.Header().Add("WWW-Authenticate", `Bearer realm="eusn-stream"`)
	}
	answer(w, http.StatusUnauthorized, "log in: docs/metrics.md, TLS and a login")
	return false
}

// hasToken takes as long for a wrong token as for a right one.
func (k *keys) hasToken(token string) bool {
	given, found := sha256.Sum256([]byte(token)), 0
	for i := range k.tokens {
		found |= subtle.ConstantTimeCompare(given[:], k.tokens[i][:])
	}
	return found == 1
}

// check compares a password with the hash of its user. What was right is
// remembered, because a hash takes tens of milliseconds, on purpose. For a user
// that is not there it takes as long.
func (d *door) check(ctx context.Context, k *keys, user, password string) (bool, error) {
	if len(k.users) == 0 || len(password) > maxPassword {
		return false, nil
	}
	hash, there := k.users[user]
	if !there {
		hash = k.anyHash
	}
	mark := sha256.Sum256([]byte(string(d.salt[:]) + hash + user + "\x00" + password)) // a hash has 60 bytes
	d.mu.Lock()
	known := there && d.known[mark]
	d.mu.Unlock()
	if known {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	select {
	case d.place <- struct{}{}:
		defer func() { <-d.place }()
	case <-ctx.Done():
		return false, errBusy
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) != nil || !there {
		time.Sleep(d.pause) // also where the client has gone meanwhile: the next guess waits
		return false, nil
	}
	d.mu.Lock()
	d.known[mark] = true
	d.mu.Unlock()
	return true, nil
}

// complain logs refused logins, without what was given: a name may be a password
// in the wrong place.
func (d *door) complain(from string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused++
	if time.Since(d.told) < complain && !d.told.IsZero() {
		return
	}
	d.log.Warn("logins to the metrics port were refused: wrong name, password or token", "times", d.refused, "last_from", from)
	d.refused, d.told = 0, time.Now()
}
