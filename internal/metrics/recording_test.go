package metrics

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const healthyMinutes = 20

// target is a process that Prometheus scrapes.
type target struct {
	job, instance string
	at            *Server
}

type message struct {
	data   []byte
	header []string
}

// recording is a stage and a gateway as Prometheus would see them, in less time: ages are
// multiplied by the ratio of the real to the used scrape interval.
type recording struct {
	*testing.T
	rig      *rig
	tick     time.Duration   // between two scrapes
	names    map[string]bool // names used by the alerts
	targets  []target
	counters map[string]*pipeline.Counters
	stops    map[string]func()
	seq      map[string]int
	last     map[string]message
	told     map[string]float64 // gauges set by hand
	encode   func(x ...float32) []byte
	post     func(path string)
	fill     func()
	poll     func(addr string)
	slow     atomic.Bool
	silent   bool // producers
	full     bool // the gateway's input: no device is answered

	series map[string][]float64 // NaN: absent
	length int
}

// timeFactor is the factor of ages.
func (f *recording) timeFactor() time.Duration { return time.Minute / f.tick }

func newRecording(t *testing.T, rules, alert string) *recording {
	t.Helper()
	f := &recording{T: t, rig: newRig(t), tick: 250 * time.Millisecond, names: map[string]bool{}, counters: map[string]*pipeline.Counters{}, stops: map[string]func(){}, seq: map[string]int{}, last: map[string]message{}, told: map[string]float64{}, series: map[string][]float64{}}
	if alert == "EusnLagGrows" { // a slow engine delays the snapshots for a second, which must not be reported as minutes
		f.tick = time.Second
	}
	for _, name := range regexp.MustCompile(`eusn_\w+`).FindAllString(rules, -1) {
		f.names[name] = true
	}
	enc, err := codec.NewInputEncoder([]string{"x"}, codec.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.encode = func(x ...float32) []byte {
		data, err := enc.Encode(&codec.Batch{Rows: len(x), X: x})
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(data)
	}
	for _, name := range []string{"w1", "w2"} {
		if name == "w2" && alert != "EusnDown" {
			continue // one is enough
		}
		f.startWorker(name, true)
		_, at := startServer(t, Options{Counters: f.counters[name], Certificates: certificateWatch(f.T, time.Unix(5184000, 0).Add(-certs.AuthorityLife)), Log: slog.New(slog.DiscardHandler)})
		f.targets = append(f.targets, target{"eusn-stream", name, at})
	}
	f.startGateway()
	return f
}

// publishMinute publishes a minute's messages of producers and devices.
func (f *recording) publishMinute() {
	f.Helper()
	for range 5 {
		f.sendSequence("a", 0.3)
		f.sendSequence("b", 0.2)
	}
	if !f.full && f.stops["g1"] != nil {
		f.post("/v1/sensors/device")
	}
}

// stopTarget stops a process; Prometheus gets no more answers from it.
func (f *recording) stopTarget(name string) {
	f.Helper()
	f.stops[name]()
	delete(f.stops, name)
	for _, t := range f.targets {
		if t.instance == name {
			if err := t.at.Close(); err != nil {
				f.Error(err)
			}
		}
	}
}

// advanceMinutes advances the time, and scrapes.
func (f *recording) advanceMinutes(n int, each func()) {
	f.Helper()
	clock := time.NewTicker(f.tick)
	defer clock.Stop()
	for range n {
		each()
		<-clock.C
		f.scrapeAll()
	}
}

var sampleLine = regexp.MustCompile(`^(eusn_\w+)(?:\{(.*)\})? (\S+)$`)

func (f *recording) scrapeAll() {
	f.Helper()
	for _, t := range f.targets {
		labels := fmt.Sprintf(`job="%s", instance="%s"`, t.job, t.instance)
		res, err := http.Get(t.at.URL() + "/metrics")
		if err != nil {
			f.addValue(`up{`+labels+`}`, 0)
			continue
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			f.Fatal(err)
		}
		f.addValue(`up{`+labels+`}`, 1)
		for line := range strings.Lines(string(page)) {
			m := sampleLine.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil || !f.names[m[1]] {
				continue
			}
			v, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				f.Fatal(err)
			}
			if told, ok := f.told[m[1]]; ok {
				v = told
			}
			if strings.HasSuffix(m[1], "_seconds") && m[1] != certificateExpires.name { // a time, not an age
				v = math.Round(v * float64(f.timeFactor()))
			}
			own := labels
			if m[2] != "" {
				own += ", " + m[2]
			}
			f.addValue(m[1]+"{"+own+"}", v)
		}
	}
	f.length++
	for name, values := range f.series {
		if len(values) < f.length {
			f.series[name] = append(values, math.NaN())
		}
	}
}

func (f *recording) addValue(series string, v float64) {
	values := f.series[series]
	for len(values) < f.length {
		values = append(values, math.NaN())
	}
	f.series[series] = append(values, v)
}

// promtoolTest returns the recording as a test of promtool.
func (f *recording) promtoolTest(alert, about string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# The fault of %s: %s.
# Recorded by go test ./internal/metrics -run TestFaults -record-faults from a real
# stage and gateway. A scrape every %v is told as one a minute, and ages as %d times
# as long. The fault begins after %d minutes.
rule_files: [../alerts.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
`, alert, about, f.tick, f.timeFactor(), healthyMinutes)
	for _, name := range slices.Sorted(maps.Keys(f.series)) {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", name, formatValues(f.series[name]))
	}
	const fired = `group by (alertname) (last_over_time(ALERTS{alertstate="firing"}[3h]))`
	fmt.Fprintf(&b, `    promql_expr_test: # all that has fired until then
      - expr: %[1]s
        eval_time: %[2]dm
        exp_samples: []
      - expr: %[1]s
        eval_time: %[3]dm
        exp_samples: [{labels: '{alertname="%[4]s"}', value: 1}]
`, fired, healthyMinutes-1, f.length-1, alert)
	return b.Bytes()
}

// formatValues formats numbers for promtool: 5x3 is 5 four times, 5+2x3 is 5, 7, 9, 11, stale is
// the end of a series, _ a missing value.
func formatValues(v []float64) string {
	var words []string
	for i := 0; i < len(v); {
		n := 1
		if math.IsNaN(v[i]) {
			for i+n < len(v) && math.IsNaN(v[i+n]) {
				n++
			}
			if i > 0 {
				words = append(words, "stale")
				if n == 1 {
					i++
					continue
				}
				i, n = i+1, n-1
			}
			words = append(words, fmt.Sprintf("_x%d", n))
			i += n
			continue
		}
		step := 0.0
		if i+1 < len(v) && !math.IsNaN(v[i+1]) {
			step = v[i+1] - v[i]
		}
		for i+n < len(v) && v[i+n]-v[i+n-1] == step {
			n++
		}
		switch {
		case n > 1 && step == 0:
			words = append(words, fmt.Sprintf("%sx%d", formatNumber(v[i]), n-1))
		case n > 2:
			words = append(words, fmt.Sprintf("%s%sx%d", formatNumber(v[i]), formatSign(step), n-1))
		default:
			words, n = append(words, formatNumber(v[i])), 1
		}
		i += n
	}
	return strings.Join(words, " ")
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func formatSign(v float64) string {
	if v > 0 {
		return "+" + formatNumber(v)
	}
	return formatNumber(v)
}
