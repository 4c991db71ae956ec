package metrics

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	rereadEvery = time.Second
	maxKeyFile  = 1 << 20 // bytes
	leastToken  = 16      // bytes: shorter tokens can be guessed
)

// keys is the content of an Access's files.
type keys struct {
	pair    tls.Certificate
	clients *x509.CertPool
	users   map[string]string // bcrypt hashes by name
	anyHash string            // any of the hashes
	tokens  [][sha256.Size]byte
}

// keyring rereads changed files on use.
type keyring struct {
	access Access
	log    *slog.Logger
	every  time.Duration // rereadEvery, except in tests

	mu     sync.Mutex
	looked time.Time
	text   map[string][]byte // by path, as last read
	last   *keys             // of the last usable files
	failed string            // last logged error, empty after a success
}

// openFiles reads the files for the first time.
func (r *keyring) openFiles() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked = time.Now()
	return r.readFiles()
}

// currentKeys returns the content of the files. Unusable files change nothing.
func (r *keyring) currentKeys() *keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.looked) < r.every {
		return r.last
	}
	r.looked = time.Now()
	switch err := r.readFiles(); {
	case err != nil && err.Error() != r.failed:
		r.log.Error("a file for TLS or the login of the metrics port cannot be used; the previous content is still in use. Repair the file: it is reread automatically", "err", err)
		r.failed = err.Error()
	case err == nil && r.failed != "":
		r.log.Info("the files for TLS and the login of the metrics port can be used again")
		r.failed = ""
	}
	return r.last
}

// readFiles reads all files, and replaces either all keys or none.
func (r *keyring) readFiles() error {
	a, text := r.access, map[string][]byte{}
	changed := r.last == nil
	for _, f := range []struct{ key, path string }{
		{"metrics.tls.cert", a.Cert}, {"metrics.tls.key", a.Key}, {"metrics.tls.ca", a.ClientCA}, {"metrics.users", a.Users}, {"metrics.token_file", a.TokenFile},
	} {
		if f.path == "" {
			continue
		}
		b, err := readKeyFile(f.path)
		if err != nil {
			return fmt.Errorf("metrics: %s: %w", f.key, err)
		}
		changed = changed || !bytes.Equal(b, r.text[f.path])
		text[f.path] = b
	}
	if !changed {
		return nil
	}
	k, err := a.parseFiles(text, time.Now())
	if err != nil {
		return err
	}
	r.text, r.last = text, k
	return nil
}

func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(b) > maxKeyFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxKeyFile)
	}
	return b, err
}

// parseFiles parses the files, by path. Its errors contain no possible secrets.
func (a *Access) parseFiles(text map[string][]byte, now time.Time) (*keys, error) {
	k := new(keys)
	var err error
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("metrics: give both of metrics.tls.cert and metrics.tls.key, or neither")
	}
	if a.Cert != "" {
		if k.pair, err = tls.X509KeyPair(text[a.Cert], text[a.Key]); err != nil {
			return nil, fmt.Errorf("metrics: certificate %s with key %s: %w", a.Cert, a.Key, err)
		}
		if end := k.pair.Leaf.NotAfter; end.Before(now) {
			return nil, fmt.Errorf("metrics: the certificate %s has expired at %s: no client accepts it: renew it (docs/secure.md)", a.Cert, end.UTC().Format(time.RFC3339))
		}
	}
	if a.ClientCA != "" {
		if a.Cert == "" {
			return nil, errors.New("metrics: metrics.tls.ca needs metrics.tls.cert and metrics.tls.key")
		}
		k.clients = x509.NewCertPool()
		if !k.clients.AppendCertsFromPEM(text[a.ClientCA]) {
			return nil, fmt.Errorf("metrics: metrics.tls.ca: %s holds no certificate", a.ClientCA)
		}
	}
	if a.Users != "" {
		if k.users, k.anyHash, err = parseUsers(text[a.Users]); err != nil {
			return nil, fmt.Errorf("metrics: metrics.users: %s: %w", a.Users, err)
		}
	}
	if a.TokenFile != "" {
		if k.tokens, err = parseTokens(text[a.TokenFile]); err != nil {
			return nil, fmt.Errorf("metrics: metrics.token_file: %s: %w", a.TokenFile, err)
		}
	}
	return k, nil
}

// bcryptHash matches a bcrypt hash. A cost above 14 takes seconds per login.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$`)

// parseUsers parses lines of name:hash. It also returns the first hash.
func parseUsers(text []byte) (users map[string]string, first string, err error) {
	users = map[string]string{}
	for n, line := range usefulLines(text) {
		name, hash, ok := strings.Cut(line, ":")
		switch {
		case !ok || name == "":
			return nil, "", fmt.Errorf("line %d is not name:hash, as htpasswd -nB NAME writes it", n)
		case !bcryptHash.MatchString(hash): // the text may be a password: not shown
			return nil, "", fmt.Errorf("line %d: the text after the name is not a bcrypt hash with a cost of at most 14, such as from htpasswd -nB NAME", n)
		case users[name] != "":
			return nil, "", fmt.Errorf("line %d: the name is listed twice", n)
		}
		if users[name] = hash; first == "" {
			first = hash
		}
	}
	if first == "" {
		return nil, "", errors.New("no users: want a line name:hash for each, as htpasswd -nB NAME writes it")
	}
	return users, first, nil
}

// parseTokens parses one token per line. Two tokens allow clients to change from one to the other.
func parseTokens(text []byte) (tokens [][sha256.Size]byte, err error) {
	for n, line := range usefulLines(text) {
		if len(line) < leastToken || strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("line %d is no token: want at least %d letters, digits and signs without blanks, such as openssl rand -hex 16 writes", n, leastToken)
		}
		tokens = append(tokens, sha256.Sum256([]byte(line)))
	}
	if len(tokens) == 0 {
		return nil, errors.New("no token: want one on a line, such as openssl rand -hex 16 writes")
	}
	return tokens, nil
}

// usefulLines yields each line that is neither empty nor a # comment, with its number.
func usefulLines(text []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		for i, line := range strings.Split(string(text), "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && !yield(i+1, line) {
				return
			}
		}
	}
}
