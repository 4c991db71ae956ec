package metrics

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// fullOptions returns options so that every metric has a value.
func fullOptions(t *testing.T) Options {
	t.Helper()
	r := newRig(t)
	counters := new(pipeline.Counters)
	r.startStage(counters, pipeline.Config{Partitions: 1})
	waitUntil(t, "the partition to be read", func() bool {
		all := counters.Status().Partitions
		return len(all) == 1 && all[0].Epoch > 0
	})
	r.startShadow(counters)
	return Options{Counters: counters, Version: "v0", GPUs: &fixed{list: cards()}, Traces: func() trace.Stats { return trace.Stats{} }, Certificates: certificateWatch(t, time.Now()), Log: slog.New(slog.DiscardHandler)}
}

// certificateWatch returns a watch with a certificate created at a time.
func certificateWatch(t *testing.T, made time.Time) *certs.Watch {
	t.Helper()
	authority, err := certs.NewAuthority("test", made)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, authority.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return certs.NewWatch(slog.New(slog.DiscardHandler), certs.Use{Key: "server.tls.cert", File: path}, certs.Use{Key: "nats.tls.cert"})
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(newRegistry(fullOptions(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// definedMetrics returns all metrics of the package.
func definedMetrics() []*metric {
	return slices.Concat(newStage(nil, "").metrics(), new(gpus).metrics(), tracesCollector{}.metrics(), certificates{}.metrics())
}

// TestTable: the table of docs/metrics.md, the definitions and a scrape have the same metrics.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(eusn_[a-z_]+)` \\| ([a-z]+) \\| (.*?) \\|").FindAllStringSubmatch(string(text), -1) {
		if documented[m[1]] != "" {
			t.Errorf("%s is twice in the table", m[1])
		}
		documented[m[1]] = m[2] + " by " + m[3]
	}
	inCode := map[string]string{}
	for _, m := range slices.Concat(definedMetrics(), gatewayCollector{}.metrics()) {
		var labels []string
		for _, l := range m.labels {
			labels = append(labels, "`"+l+"`")
		}
		kind := map[prometheus.ValueType]string{counter: "counter", gauge: "gauge", histogram: "histogram"}[m.kind]
		inCode[m.name] = kind + " by " + strings.Join(labels, ", ")
	}
	families, err := newRegistry(fullOptions(t)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	scraped := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "eusn_") {
			continue
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		scraped[f.GetName()] = strings.ToLower(f.GetType().String()) + " by " + strings.Join(labels, ", ")
	}
	for name, is := range inCode {
		if documented[name] != is {
			t.Errorf("%s: the table says %q, the code %q", name, documented[name], is)
		}
		if strings.HasPrefix(name, "eusn_gateway_") {
			continue // a stage has none
		}
		if kind, _, _ := strings.Cut(is, " "); !strings.HasPrefix(scraped[name], kind) || strings.Count(scraped[name], ",") != strings.Count(is, ",") {
			t.Errorf("%s: a scrape brings %q, the code says %q", name, scraped[name], is)
		}
	}
	for name := range documented {
		if inCode[name] == "" {
			t.Errorf("the table has %s, the code has not", name)
		}
	}
	for name := range scraped {
		if inCode[name] == "" {
			t.Errorf("a scrape brings %s, which is not defined", name)
		}
	}
	// The metrics in the alert rules exist.
	for _, file := range []string{"alerts.yaml", "alerts_test.yaml"} {
		rules, err := os.ReadFile("../../configs/prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, rules...)
	}
	for _, name := range regexp.MustCompile(`eusn_[a-z_]+`).FindAllString(string(text), -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if inCode[name] == "" && inCode[base] == "" {
			t.Errorf("the page or the alert rules speak of %s, which does not exist", name)
		}
	}
}
