package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const configs = "../../configs"

// dashboard has the parts of a dashboard file that the tests read.
type dashboard struct {
	UID         string
	Panels      []panel
	Annotations struct {
		List []struct{ Target struct{ Expr string } }
	}
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ RefID, Expr string }
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, name := range []string{"stage", "gateway"} {
		text, err := os.ReadFile(filepath.Join(configs, "grafana", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		all[name] = d
	}
	return all
}

// TestDashboardLayout: panels have unique numbers, do not overlap, and have a description. Each
// exported metric is in a panel, or listed here.
func TestDashboardLayout(t *testing.T) {
	asked := ""
	for name, d := range dashboards(t) {
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || (p.Type == "row") != (len(p.Targets) == 0) {
				t.Errorf("%s: panel %d %q: its number is there twice, or it lacks a title or a query", name, p.ID, p.Title)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if at := [2]int{x, y}; x >= 24 || taken[at] != "" {
						t.Fatalf("%s: %q covers %q, or is beyond the page", name, p.Title, taken[at])
					} else {
						taken[at] = p.Title
					}
				}
			}
			for _, q := range p.Targets {
				asked += q.Expr + "\n"
			}
		}
	}
	rules, err := os.ReadFile(filepath.Join(configs, "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(rules), -1) {
		if strings.Count(asked+string(rules), record[1]) < 2 { // once in its definition
			t.Errorf("no panel and no other rule asks for %s: rules.yaml computes it for nobody", record[1])
		}
	}
	asked += string(rules)
	known := map[string]bool{}
	for _, m := range append(definedMetrics(), gatewayCollector{}.metrics()...) {
		known[m.name] = true
		switch m.name {
		case "eusn_traces_sent_total", "eusn_traces_dropped_total", "eusn_traces_limited_total": // traces are off by default: their panel would be empty
		case "eusn_certificate_expires_seconds": // an alert reports it
		case "eusn_partition_epoch": // only useful in the log, not in a graph
		case "eusn_snapshots_total", "eusn_snapshot_seconds_total": // their bytes are shown
		case "eusn_gpu_info", "eusn_gpu_energy_joules_total", "eusn_gpu_memory_busy_ratio", "eusn_gpu_temperature_celsius": // three other figures of a GPU are shown
		default:
			if !strings.Contains(asked, m.name) && m.name != "eusn_engine_info" { // a mark on the time axis
				t.Errorf("no panel shows %s: add it to one in configs/grafana, or name it here with the reason", m.name)
			}
		}
	}
	for _, name := range regexp.MustCompile(`\beusn_[a-z_]+`).FindAllString(regexp.MustCompile(`\w+:\w+:\w+`).ReplaceAllString(asked, ""), -1) {
		if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); !known[name] && !known[base] {
			t.Errorf("a panel or a rule asks for %s, which does not exist", name)
		}
	}
}

// TestDashboardTypes: Grafana's types accept the dashboards, and find the errors in a damaged
// dashboard.
func TestDashboardTypes(t *testing.T) {
	dir := parts.RequireModule(t, "node", "tools/grafana", "@grafana/schema", "")
	file := filepath.Join(configs, "grafana", "stage.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := string(text)
	for old, wrong := range map[string]string{`"graphTooltip": 1`: `"graphTooltips": 1`, `"drawStyle": "line"`: `"drawStyle": "lines"`, `"colorMode": "value"`: `"color_mode": "value"`, `"collapsed": false`: `"collapsed": "no"`} {
		if !strings.Contains(damaged, old) {
			t.Fatalf("stage.json lacks %s", old)
		}
		damaged = strings.Replace(damaged, old, wrong, 1)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	// One run of node for all: reading the types takes seconds.
	out, err := exec.Command("node", filepath.Join(dir, "check.mjs"), file, filepath.Join(configs, "grafana", "gateway.json"), bad).CombinedOutput()
	for _, want := range []string{"/stage.json: right", "/gateway.json: right", "graphTooltips", `"lines"`, "color_mode", "collapsed"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("the check does not say %s (%v):\n%s", want, err, out)
		}
	}
}

// value decodes any payload as one sample, 1.
type value struct{}

func (value) Decode([]byte) ([]gateway.Part, error) { return []gateway.Part{{X: []float32{1}}}, nil }

// TestDashboardQueries: each query of each panel returns numbers from Debian's Prometheus, which
// scrapes a live stage and a live gateway with configs/prometheus, TLS and a login.
func TestDashboardQueries(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	access := Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key"), TokenFile: s.filePath("token")}
	server := pipelinetest.Server(t, natsserver.Options{})
	nc, js := pipelinetest.Connect(t, server)
	r := &rig{t, server, js}
	counters := new(pipeline.Counters)
	_, stage := startServer(t, Options{Counters: counters, Version: "v0", GPUs: &fixed{list: cards()}, Access: access})
	// Frequent snapshots provide their metrics.
	r.startStage(counters, pipeline.Config{Partitions: 2, Shards: 1, SnapshotEvery: 200 * time.Millisecond, SnapshotMessages: 20})
	r.startShadow(counters)
	g, err := gateway.New(nc, gateway.Config{Channels: []string{"x"}, Decoder: value{}, Lines: value{}, Dir: t.TempDir(), Log: s.book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	port, err := Listen("127.0.0.1:0", Options{Gateway: g.Stats, Access: access, Log: s.book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	ended.Go(func() {
		if err := g.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	ended.Go(func() { publishLoad(ctx, t, nc, g) })

	p := startPrometheus(t, scrapeConfig(t, s, stage.Addr(), port.Addr()))
	missing := map[string]string{}
	for name, d := range dashboards(t) {
		job := map[string]string{"stage": "eusn-stream", "gateway": "eusn-gateway"}[name]
		in := strings.NewReplacer("$__rate_interval", "30s", "$job", job, "$instance", ".+")
		for _, panel := range d.Panels {
			for _, q := range panel.Targets {
				missing[name+", "+panel.Title+", "+q.RefID] = in.Replace(q.Expr)
			}
		}
		for _, a := range d.Annotations.List { // may be empty
			if _, err := p.queryNumbers(in.Replace(a.Target.Expr)); err != nil {
				t.Errorf("a mark of %s: %v", name, err)
			}
		}
	}
	if len(missing) < 50 {
		t.Fatalf("%d queries, want those of all panels", len(missing))
	}
	for end := time.Now().Add(patience); len(missing) > 0; time.Sleep(200 * time.Millisecond) {
		for at, query := range missing {
			switch n, err := p.queryNumbers(query); {
			case err != nil:
				t.Fatalf("%s: %v\n%s", at, err, query)
			case n > 0:
				delete(missing, at)
			}
		}
		if time.Now().After(end) {
			for at, query := range missing {
				t.Errorf("%s: no numbers within %v\n%s", at, patience, query)
			}
			return
		}
	}
}

// scrapeConfig returns configs/prometheus/prometheus.yaml with a reader's changes: TLS, the login
// and addresses. A shorter scrape interval keeps the test short.
func scrapeConfig(t *testing.T, s *secured, stage, gateway string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(configs, "prometheus", "prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs(filepath.Join(configs, "prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	config := regexp.MustCompile(`(?m)^    # (scheme|tls_config|authorization)`).ReplaceAllString(string(text), "    $1")
	for _, change := range [][2]string{
		{"127.0.0.1:9464", stage}, {"127.0.0.1:9465", gateway}, {"eusn-secure/ca.pem", s.filePath("ca.pem")}, {"eusn-secure/metrics.token", s.filePath("token")},
		{"scrape_interval: 15s", "scrape_interval: 500ms\n  scrape_timeout: 500ms"}, {"evaluation_interval: 15s", "evaluation_interval: 500ms"}, {"[rules.yaml, alerts.yaml]", "[" + rules + "/rules.yaml, " + rules + "/alerts.yaml]"},
	} {
		if !strings.Contains(config, change[0]) {
			t.Fatalf("prometheus.yaml lacks %q", change[0])
		}
		config = strings.ReplaceAll(config, change[0], change[1])
	}
	return config
}

// publishLoad publishes sequences and a gateway's device messages until ctx ends.
func publishLoad(ctx context.Context, t *testing.T, nc *nats.Conn, g *gateway.Gateway) {
	enc, err := codec.NewInputEncoder([]string{"x"}, codec.InputOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	data, err := enc.Encode(&codec.Batch{Rows: 3, X: []float32{1, 2, 3}})
	if err != nil {
		t.Error(err)
		return
	}
	data = bytes.Clone(data)
	for i := 0; ctx.Err() == nil; i++ {
		for _, key := range []string{"a", "b", "c", "d"} {
			msg := nats.NewMsg("sensors." + key)
			if msg.Data = data; i%3 == 2 && key != "d" { // d stays open
				msg.Header.Set(wire.HeaderEnd, "1")
			}
			_ = nc.PublishMsg(msg) // a lost message does not matter
		}
		if err := g.Take(ctx, &gateway.Message{Input: gateway.HTTP, Key: "device", Payload: []byte("x"), Done: func(error) {}}); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
