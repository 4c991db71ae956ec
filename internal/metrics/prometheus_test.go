package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// prometheusServer is a running Prometheus.
type prometheusServer struct {
	*testing.T
	base string
}

// startPrometheus runs Debian's Prometheus with a configuration until the test ends.
func startPrometheus(t *testing.T, config string) *prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		parts.Absent(t, "promtool", "%v (Debian: apt-get install prometheus)", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 { // another program may take the port
		addr := freePort(t)
		var said bytes.Buffer
		c := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
		c.Stdout, c.Stderr = &said, &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		p := &prometheusServer{t, "http://" + addr}
		if !p.waitUntilUp(ended) {
			if strings.Contains(said.String(), "address already in use") {
				continue
			}
			_ = c.Process.Kill()
			t.Fatalf("Prometheus does not run:\n%s", &said)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill() // its data is removed, too
			<-ended
			if t.Failed() {
				t.Logf("Prometheus said:\n%s", &said)
			}
		})
		return p
	}
	t.Fatal("no free port for Prometheus")
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// waitUntilUp waits until the server answers.
func (p *prometheusServer) waitUntilUp(ended <-chan error) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		if res, err := http.Get(p.base + "/-/ready"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	return false
}

// queryNumbers sends a query and returns its number of numeric series.
func (p *prometheusServer) queryNumbers(query string) (numbers int, err error) {
	res, err := http.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var a struct {
		Error string
		Data  struct {
			ResultType string
			Result     []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return 0, err
	}
	if a.Error != "" || a.Data.ResultType != "vector" {
		return 0, fmt.Errorf("%s, %q", a.Error, a.Data.ResultType)
	}
	for _, s := range a.Data.Result {
		text, _ := s.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && v == v {
			numbers++
		}
	}
	return numbers, nil
}
