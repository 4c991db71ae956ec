package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestOpenAddress: an address that other machines can reach requires TLS and a login, or Insecure.
func TestOpenAddress(t *testing.T) {
	for _, c := range []struct {
		addr   string
		access Access
		want   bool
	}{
		{"127.0.0.1:0", Access{}, true},
		{"localhost:0", Access{}, true},
		{"[::1]:0", Access{}, true},
		{":0", Access{}, false},
		{"0.0.0.0:0", Access{}, false},
		{"10.0.0.5:0", Access{TokenFile: "t"}, false},
		{"10.0.0.5:0", Access{Cert: "c", Key: "k"}, false},
		{"10.0.0.5:0", Access{Cert: "c", Key: "k", TokenFile: "t"}, true},
		{"10.0.0.5:0", Access{Cert: "c", Key: "k", ClientCA: "a"}, true},
		{"0.0.0.0:0", Access{Insecure: true}, true},
	} {
		if err := c.access.checkAddress(c.addr); errors.Is(err, ErrOpen) == c.want || err != nil && c.want {
			t.Errorf("%s with %+v: %v", c.addr, c.access, err)
		}
	}
	if _, err := Listen("0.0.0.0:0", Options{Counters: new(pipeline.Counters)}); !errors.Is(err, ErrOpen) {
		t.Errorf("listened: %v", err)
	}
}

// TestForeignPages: without a login, a foreign page in a browser of this machine can read nothing:
// neither with a name that resolves to this machine, nor from its own origin.
func TestForeignPages(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(goodToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, _ := startServer(t, Options{Counters: new(pipeline.Counters)})
	closed, _ := startServer(t, Options{Counters: new(pipeline.Counters), Access: Access{TokenFile: token}})
	ask := func(base, host string, header ...string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, base+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "stage:9464": 200, "10.0.0.5": 200, "evil.example": 403, "evil.example:80": 403} {
		if got := ask(open, host); got != want {
			t.Errorf("host %q: %d, want %d", host, got, want)
		}
	}
	if got := ask(closed, "plant.example", "Authorization", "Bearer "+goodToken); got != 200 {
		t.Errorf("with a login, any name: %d", got)
	}
	for _, base := range []string{open, closed} {
		if got := ask(base, "", "Authorization", "Bearer "+goodToken, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"); got != 403 {
			t.Errorf("for a page of another site: %d", got)
		}
	}
}

// TestNotAlive: /healthz fails if the process must be restarted.
func TestNotAlive(t *testing.T) {
	var broken error
	base, _ := startServer(t, Options{Counters: new(pipeline.Counters), Alive: func() error { return broken }})
	if code, _ := getPage(t, base+"/healthz"); code != 200 {
		t.Errorf("alive: %d", code)
	}
	broken = errors.New("the store takes nothing")
	if code, body := getPage(t, base+"/healthz"); code != 503 || !strings.Contains(body, "the store takes nothing") {
		t.Errorf("broken: %d %q", code, body)
	}
}

// TestConnectionLimits: connections per address are limited, and connections without a header are
// closed within seconds, so that other clients are answered.
func TestConnectionLimits(t *testing.T) {
	base, s := startServer(t, Options{Counters: new(pipeline.Counters)})
	var held []net.Conn
	for range 3 * perAddress {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	began := time.Now()
	for i, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatalf("connection %d without a request: %v, want it closed", i, err)
		}
	}
	if took := time.Since(began); took > 4*headerTime+2*time.Second {
		t.Errorf("the last one was closed after %v", took)
	}
	if code, _ := getPage(t, base+"/healthz"); code != 200 {
		t.Errorf("then: %d", code)
	}
	c, err := net.Dial("tcp", s.Addr()) // idle after an answer
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(idleTime + 15*time.Second))
	if _, err := io.Copy(io.Discard, bufio.NewReader(c)); err != nil {
		t.Errorf("idle after an answer: %v, want it closed after %v", err, idleTime)
	}
}
