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

// Access defines the access to a server, by paths of files. The files are read at the start, and
// reread after changes, at most once a second; a file that becomes unreadable changes nothing and
// is logged. The zero value allows everybody, without TLS.
type Access struct {
	Cert, Key  string // TLS: certificate and key of the server, PEM; both or neither
	ClientCA   string // TLS: only clients with a certificate of these authorities, PEM; requires Cert
	Users      string // login with name and password: lines of name:hash, bcrypt, as htpasswd -B writes
	TokenFile  string // login with a bearer token: one token per line
	OpenHealth bool   // /healthz and /readyz without login and client certificate
	Insecure   bool   // allows other machines without TLS and a login
}

// checkAddress refuses an address that other machines can reach without TLS and a login or client
// certificates.
func (a *Access) checkAddress(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() || a.Insecure || a.Cert != "" && (a.needsLogin() || a.ClientCA != "") {
		return nil
	}
	return fmt.Errorf("metrics: %s: %w", addr, ErrOpen)
}

// needsLogin reports whether clients must log in. Either of Users and TokenFile is enough.
func (a *Access) needsLogin() bool { return a.Users != "" || a.TokenFile != "" }

const (
	tlsLeast    = tls.VersionTLS12
	maxPassword = 72 // bytes; bcrypt ignores further bytes, so that a longer password would not match its hash exactly
	// wrongPause is the delay of the next password check after a wrong password: four guesses a
	// second, and a fifth of a core for their hashes at bcrypt's cost of 10.
	wrongPause   = 250 * time.Millisecond
	queueTime    = 5 * time.Second // wait for other logins' hashes
	refusedEvery = time.Minute     // between two log lines about refused logins
)

// door authenticates clients.
type door struct {
	access Access
	files  keyring
	log    *slog.Logger
	pause  time.Duration // wrongPause, except in tests

	browsers *webguard.Guard

	place chan struct{} // one password is hashed at a time
	salt  [32]byte

	mu      sync.Mutex
	known   map[[32]byte]bool // salted logins with a correct password, whose hash is not recomputed
	refused int               // logins since the last log line about them
	told    time.Time
}

// openDoor reads the files; it returns an error if a file cannot be used.
func (a Access) openDoor(log *slog.Logger) (*door, error) {
	browsers, err := webguard.New(webguard.Options{Login: a.needsLogin() || a.ClientCA != "", Reads: true})
	if err != nil {
		return nil, err
	}
	d := &door{access: a, browsers: browsers, log: log, pause: wrongPause, place: make(chan struct{}, 1), known: map[[32]byte]bool{}}
	d.files = keyring{access: a, log: log, every: rereadEvery}
	_, _ = rand.Read(d.salt[:]) // never fails
	return d, d.files.openFiles()
}

// wrapListener adds TLS to a listener.
func (d *door) wrapListener(l net.Listener) net.Listener {
	if d.access.Cert == "" {
		return l
	}
	// Sessions are not resumed: a client's certificate is checked for each connection.
	return tls.NewListener(l, &tls.Config{MinVersion: tlsLeast, SessionTicketsDisabled: true, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		k := d.files.currentKeys()
		c := &tls.Config{MinVersion: tlsLeast, SessionTicketsDisabled: true, Certificates: []tls.Certificate{k.pair}, ClientCAs: k.clients}
		switch {
		case d.access.ClientCA != "" && d.access.OpenHealth:
			c.ClientAuth = tls.VerifyClientCertIfGiven // guardHandler refuses clients without a certificate
		case d.access.ClientCA != "":
			c.ClientAuth = tls.RequireAndVerifyClientCert
		}
		return c, nil
	}})
}

// guardHandler passes only authorized requests to next. Every path of a server is guarded.
func (d *door) guardHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := d.browsers.CheckRequest(r); err != nil {
			writeText(w, http.StatusForbidden, err.Error())
			return
		}
		health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case health && d.access.OpenHealth:
		case d.access.ClientCA != "" && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0):
			writeText(w, http.StatusForbidden, "give a client certificate of an authority in metrics.tls.ca")
			return
		case d.access.needsLogin() && !d.authenticate(w, r):
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errBusy: other passwords are being checked.
var errBusy = errors.New("too many simultaneous logins: retry")

// authenticate answers a request without a valid login.
func (d *door) authenticate(w http.ResponseWriter, r *http.Request) bool {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	keys, right := d.files.currentKeys(), false
	var err error
	if strings.EqualFold(scheme, "Bearer") {
		right = keys.hasToken(strings.TrimSpace(token))
	} else if user, password, ok := r.BasicAuth(); ok {
		right, err = d.checkPassword(r.Context(), keys, user, password)
	}
	switch {
	case right:
		return true
	case err != nil:
		w.Header().Set("Retry-After", "1")
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return false
	case header != "": // a browser's first request has none
		d.logRefused(r.RemoteAddr)
	}
	if d.access.Users != "" {
		w.Header().Add("WWW-Authenticate", `Basic realm="eusn-stream", charset="UTF-8"`)
	}
	if d.access.TokenFile != "" {
		w.Header().Add("WWW-Authenticate", `Bearer realm="eusn-stream"`)
	}
	writeText(w, http.StatusUnauthorized, "log in: docs/metrics.md, TLS and a login")
	return false
}

// hasToken takes the same time for wrong and right tokens.
func (k *keys) hasToken(token string) bool {
	given, found := sha256.Sum256([]byte(token)), 0
	for i := range k.tokens {
		found |= subtle.ConstantTimeCompare(given[:], k.tokens[i][:])
	}
	return found == 1
}

// checkPassword compares a password with the hash of its user. Correct logins are remembered,
// because a hash takes tens of milliseconds, on purpose. An unknown user takes the same time.
func (d *door) checkPassword(ctx context.Context, k *keys, user, password string) (bool, error) {
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
		time.Sleep(d.pause) // even if the client has disconnected: the next guess waits
		return false, nil
	}
	d.mu.Lock()
	d.known[mark] = true
	d.mu.Unlock()
	return true, nil
}

// logRefused logs refused logins, without their data: a name may be a misplaced password.
func (d *door) logRefused(from string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused++
	if time.Since(d.told) < refusedEvery && !d.told.IsZero() {
		return
	}
	d.log.Warn("logins to the metrics port were refused: wrong name, password or token", "times", d.refused, "last_from", from)
	d.refused, d.told = 0, time.Now()
}
