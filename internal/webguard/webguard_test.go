package webguard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCheckRequest(t *testing.T) {
	t.Parallel()
	open, err := New(Options{Key: "x.hosts"})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := New(Options{Key: "x.hosts", Allowed: "Plant.example, https://dash.example"})
	if err != nil {
		t.Fatal(err)
	}
	login, err := New(Options{Key: "x.hosts", Login: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		guard                      *Guard
		method, host, site, origin string
		refused                    string // part of the reason; empty: not refused
	}{
		{open, "POST", "127.0.0.1:8080", "", "", ""}, // a program
		{open, "POST", "[::1]:8080", "", "", ""},
		{open, "GET", "localhost:8080", "", "", ""},
		{open, "GET", "gateway:8080", "", "", ""}, // a service of Docker or Kubernetes
		{open, "GET", "gateway.plant.svc.cluster.local", "", "", ""},
		{open, "GET", "evil.example", "", "", "host name"}, // DNS rebinding
		{open, "GET", "evil.example:8080", "same-origin", "", "host name"},
		{open, "GET", "127.0.0.1.evil.example", "", "", "host name"},
		{open, "GET", "localhost.evil.example.", "", "", "host name"},
		{open, "POST", "127.0.0.1:8080", "cross-site", "http://evil.example", "another origin"},
		{open, "POST", "127.0.0.1:8080", "same-site", "http://127.0.0.1:9999", "another origin"},
		{open, "POST", "127.0.0.1:8080", "", "http://evil.example", "another origin"}, // a browser from before 2023
		{open, "POST", "127.0.0.1:8080", "", "null", "another origin"},
		{open, "POST", "127.0.0.1:8080", "same-origin", "http://127.0.0.1:8080", ""},
		{open, "POST", "127.0.0.1:8080", "", "http://127.0.0.1:8080", ""},
		{open, "GET", "127.0.0.1:8080", "cross-site", "", ""}, // a followed link
		{open, "POST", "plant.example", "", "", "host name"},
		{listed, "POST", "plant.example:443", "", "", ""},
		{listed, "POST", "plant.example", "cross-site", "https://dash.example", ""},
		{listed, "POST", "plant.example", "cross-site", "https://evil.example", "another origin"},
		{listed, "POST", "plant.example", "cross-site", "http://dash.example", "another origin"},
		{login, "GET", "evil.example", "", "", ""}, // the browser has no login for this name
		{login, "POST", "plant.example", "cross-site", "https://evil.example", "another origin"},
	} {
		r := httptest.NewRequest(c.method, "http://"+c.host+"/v1/x", nil)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		told := 0
		c.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }), func(error) { told++ }).ServeHTTP(w, r)
		body := w.Body.String()
		if c.refused == "" && w.Code != 204 || c.refused != "" && (w.Code != 403 || told != 1 || !strings.Contains(body, c.refused) || !strings.Contains(body, "x.hosts")) {
			t.Errorf("%s %s, site %q, origin %q: %d %q; want refused: %q", c.method, c.host, c.site, c.origin, w.Code, body, c.refused)
		}
	}
}

func TestNewRefusesEntries(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"plant:8080", "https://dash.example/path", "*.example", "a b", "user@host"} {
		if _, err := New(Options{Key: "x.hosts", Allowed: entry}); err == nil || !strings.Contains(err.Error(), "x.hosts") {
			t.Errorf("%q: %v, want an error that names the key", entry, err)
		}
	}
}

// A page of another origin cannot make its browser read from a server that also guards reads; a
// link to the server works.
func TestReads(t *testing.T) {
	t.Parallel()
	g, err := New(Options{Reads: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		site, mode, dest string
		answered         bool
	}{
		{"", "", "", true}, {"none", "navigate", "document", true}, {"same-origin", "cors", "empty", true}, {"cross-site", "navigate", "document", true},
		{"cross-site", "navigate", "iframe", false}, {"cross-site", "no-cors", "image", false}, {"same-site", "cors", "empty", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:9464/page/events", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if err := g.CheckRequest(r); (err == nil) != c.answered {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
