package webguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// localSuffixes are unregistrable domains: RFC 6761, RFC 8375, ICANN's domain for private use,
// and the domains of services in a Kubernetes cluster.
var localSuffixes = []string{".localhost", ".internal", ".home.arpa", ".svc", ".svc.cluster.local"}

// Guard decides which requests a server answers.
type Guard struct {
	origins  *http.CrossOriginProtection
	names    map[string]bool // host names accepted without a login
	anyHost  bool
	reads    bool
	settings string // configuration key for more names and origins, for messages
}

// Options configure a guard.
type Options struct {
	// Allowed lists, separated by commas, further host names of the server (plant.example) and
	// origins of web pages with permission to send requests (https://dash.example).
	Allowed string
	// Key is the configuration key of Allowed, for messages.
	Key string
	// Login is true if every request must log in; then the host name does not matter.
	Login bool
	// Reads extends the refusal to requests without changes, except followed links. No foreign
	// page can read the answers, but they cost resources.
	Reads bool
}

// New makes a guard.
func New(o Options) (*Guard, error) {
	g := &Guard{origins: http.NewCrossOriginProtection(), names: map[string]bool{}, anyHost: o.Login, reads: o.Reads, settings: o.Key}
	if name, err := os.Hostname(); err == nil {
		g.names[normalizeName(name)] = true
	}
	for entry := range strings.SplitSeq(o.Allowed, ",") {
		entry = strings.TrimSpace(entry)
		switch {
		case entry == "":
		case strings.Contains(entry, "://"):
			if err := g.origins.AddTrustedOrigin(entry); err != nil {
				return nil, fmt.Errorf("%s: %q: want an origin such as https://dash.example, or a host name: %w", o.Key, entry, err)
			}
		case strings.ContainsAny(entry, "/:@ \t*"):
			return nil, fmt.Errorf("%s: %q: want a host name without a port, such as plant.example, or an origin such as https://dash.example", o.Key, entry)
		default:
			g.names[normalizeName(entry)] = true
		}
	}
	return g, nil
}

// CheckRequest returns the reason for refusing a request, or nil.
func (g *Guard) CheckRequest(r *http.Request) error {
	if !g.anyHost && !g.acceptsHost(r.Host) {
		if g.settings == "" {
			return fmt.Errorf("the host name %.80q is not known: without a login, use an IP address, localhost or the name of the machine", hostName(r.Host))
		}
		return fmt.Errorf("the host name %.80q is not known: use an IP address or localhost, or add the name to %s", hostName(r.Host), g.settings)
	}
	if g.origins.Check(r) != nil || g.reads && readsForeign(r) {
		if g.settings == "" {
			return fmt.Errorf("a web page of another origin (%.80q) may not send requests", r.Header.Get("Origin"))
		}
		return fmt.Errorf("a web page of another origin (%.80q) may not send requests: add the origin to %s", r.Header.Get("Origin"), g.settings)
	}
	return nil
}

// Handler answers refused requests with 403 and passes all others to h. The function refused,
// which may be nil, gets the reason of each refusal.
func (g *Guard) Handler(h http.Handler, refused func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.CheckRequest(r); err != nil {
			if refused != nil {
				refused(err)
			}
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// readsForeign reports whether a page of another origin makes a browser send a request without
// changes, such as for an image or a stream of events.
func readsForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func (g *Guard) acceptsHost(host string) bool {
	name := hostName(host)
	if name == "" || !strings.Contains(name, ".") && !strings.Contains(name, ":") || g.names[name] {
		return true // HTTP/1.0 programs send no name; browsers always do
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	for _, s := range localSuffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// hostName returns the name or address in a Host header.
func hostName(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return normalizeName(name)
}

func normalizeName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
