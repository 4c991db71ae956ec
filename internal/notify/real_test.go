package notify_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestRealAlertmanager: Prometheus' Alertmanager notifies once per alarm, although the alarm is
// sent repeatedly and resolve_timeout is shorter than the interval. After a kill, Alertmanager has
// lost all alarms and receives them. It notifies once about the end of the alarm.
func TestRealAlertmanager(t *testing.T) {
	path, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		parts.Absent(t, "alertmanager", "%v (Debian: apt-get install prometheus-alertmanager)", err)
	}
	var mu sync.Mutex
	var woken []string // status and labels of each notification
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var group struct {
			Alerts []struct {
				Status      string            `json:"status"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"alerts"`
		}
		if err := json.NewDecoder(q.Body).Decode(&group); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range group.Alerts {
			woken = append(woken, fmt.Sprint(a.Status, " ", a.Labels["alertname"], " ", a.Labels["job"], " ", a.Labels["key"], " ", a.Labels["severity"], ": ", a.Annotations["summary"]))
		}
	}))
	defer receiver.Close()
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(woken, "\n")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "alertmanager.yml")
	text := fmt.Sprintf(`
global: {resolve_timeout: 100ms}
route: {receiver: us, group_by: [alertname, key], group_wait: 10ms, group_interval: 200ms, repeat_interval: 1h}
receivers: [{name: us, webhook_configs: [{url: %q, send_resolved: true}]}]
`, receiver.URL)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	begin := func() (end func()) {
		m := exec.Command(path, "--config.file="+conf, "--storage.path="+t.TempDir(), "--web.listen-address="+address, "--cluster.listen-address=", "--web.route-prefix=/am")
		log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			m.Stdout, m.Stderr = log, log
			err = m.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		end = func() {
			once.Do(func() {
				_ = m.Process.Kill()
				_ = m.Wait()
				log.Close()
			})
		}
		t.Cleanup(end)
		return end
	}
	get := func(path string) string {
		a, err := http.Get("http://" + address + "/am" + path)
		if err != nil {
			return ""
		}
		defer a.Body.Close()
		body, _ := io.ReadAll(a.Body)
		return string(body)
	}
	told := regexp.MustCompile(`alertmanager_alerts_received_total\{status="firing",version="v2"\} [5-9]`)
	r := newRig(t)
	kill := begin()
	p := r.startProcess(&notify.Alertmanager{
		Job: "job", URL: "http://" + address + "/am", Labels: map[string]string{"severity": "page"}, Resend: 200 * time.Millisecond, First: 10 * time.Millisecond, Log: r.log,
	})
	e := raisedEvent("rub", "pump.7 ä \"x\"")
	e.Probability = .5
	n := r.publishEvent(e)
	firing := `firing rub job pump.7 ä "x" page: rub pump.7 ä "x": rub, probability 0.5`
	r.waitFor("somebody to be woken", func() bool { return said() == firing })
	r.waitFor("it to be told again", func() bool { return told.MatchString(get("/metrics")) })
	kill()
	begin()
	r.waitFor("somebody to be woken after a kill", func() bool { return said() == firing+"\n"+firing })
	r.publishEvent(alarm.Event{Kind: alarm.Acknowledged, Rule: e.Rule, Key: e.Key, Alarm: n, Who: "anna", Class: e.Class})
	over := clearedEvent(e.Rule, e.Key, n)
	over.Class = "ok"
	r.publishEvent(over)
	resolved := `resolved rub job pump.7 ä "x" page: rub pump.7 ä "x" cleared: ok`
	r.waitFor("the end of it", func() bool { return said() == firing+"\n"+firing+"\n"+resolved })
	r.waitFor("no alert", func() bool { return strings.TrimSpace(get("/api/v2/alerts")) == "[]" })
	r.stopProcess(p)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || strings.Contains(string(log), "level=error") {
		t.Errorf("Alertmanager says %s, %v", log, err)
	}
}
