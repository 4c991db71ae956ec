package notify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/notify"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// postable is an alert exactly as Alertmanager's API v2 defines it (api/v2/openapi.yaml,
// postableAlert).
type postable struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

var labelName = regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]*$")

// validate applies Alertmanager's checks (types.Alert.Validate), and more.
func (p *postable) validate(now time.Time) error {
	if p.StartsAt.IsZero() || p.EndsAt.Before(p.StartsAt) || len(p.Labels) == 0 {
		return fmt.Errorf("from %v until %v with labels %v", p.StartsAt, p.EndsAt, p.Labels)
	}
	for _, all := range []map[string]string{p.Labels, p.Annotations} {
		for name, value := range all {
			if !labelName.MatchString(name) || !utf8.ValidString(value) {
				return fmt.Errorf("%q is %q", name, value)
			}
		}
	}
	for _, name := range []string{"alertname", "job", "key"} {
		if p.Labels[name] == "" {
			return fmt.Errorf("no label %s: %v", name, p.Labels)
		}
	}
	if p.EndsAt.After(now.Add(notify.Expire + time.Minute)) {
		return fmt.Errorf("it ends at %v", p.EndsAt)
	}
	return nil
}

// manager is an HTTP server that accepts alerts as Alertmanager does, and that a test can reset.
type manager struct {
	*httptest.Server
	t          *testing.T
	mu         sync.Mutex
	alerts     map[string]postable // by labels
	fail       func(n int) int     // status of request n; 0 = accepted
	n          int                 // requests
	taken      int                 // alerts
	acceptsAll bool                // refuses no alert
}

func newManager(t *testing.T) *manager {
	m := &manager{t: t, alerts: map[string]postable{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *manager) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	if m.fail != nil {
		if code := m.fail(m.n); code != 0 {
			http.Error(w, "not now", code)
			return
		}
	}
	if q.Method != http.MethodPost || q.URL.Path != "/prefix/api/v2/alerts" || q.Header.Get("Content-Type") != "application/json" {
		m.t.Errorf("%s %s with %v", q.Method, q.URL.Path, q.Header)
	}
	body, err := io.ReadAll(q.Body)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var all []postable
	if err = errors.Join(err, d.Decode(&all)); err != nil || all == nil {
		m.t.Errorf("%s: %v, want a list of alerts", body, err)
		return
	}
	wrong := 0
	for _, p := range all {
		if strings.HasPrefix(p.Labels["key"], "bad") && !m.acceptsAll { // like labels that Alertmanager refuses
			wrong++
			continue
		}
		if err := p.validate(time.Now()); err != nil {
			m.t.Errorf("an alert of %s: %v", body, err)
		}
		id := fmt.Sprint(p.Labels)
		if was, known := m.alerts[id]; known && was.EndsAt.After(time.Now()) && p.StartsAt.Before(was.StartsAt) {
			m.t.Errorf("an alert began at %v, and now at %v", was.StartsAt, p.StartsAt)
		}
		m.alerts[id] = p
		m.taken++
	}
	if wrong > 0 {
		http.Error(w, `"invalid label set"`, http.StatusBadRequest)
	}
}

// keys returns the keys of active alerts (on) and of ended alerts (off).
func (m *manager) keys() (on, off string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := map[bool][]string{}
	for _, key := range []string{"a", "b", "c", "pump.7 ä"} {
		for _, p := range m.alerts {
			if p.Labels["key"] == key {
				now[p.EndsAt.After(time.Now())] = append(now[p.EndsAt.After(time.Now())], key)
			}
		}
	}
	return strings.Join(now[true], " "), strings.Join(now[false], " ")
}

func (m *manager) change(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func raisedEvent(rule, key string) alarm.Event {
	now := time.Now().UTC()
	return alarm.Event{Kind: alarm.Raised, Rule: rule, Key: key, Stream: key, Class: "rub", Since: now.Add(-time.Second), Time: now}
}

func clearedEvent(rule, key string, number uint64) alarm.Event {
	e := raisedEvent(rule, key)
	e.Kind, e.Alarm = alarm.Cleared, number
	return e
}

// TestAlertmanager: active alarms are sent repeatedly, even after Alertmanager or this process was
// killed, and so are alarms that were cleared in the meantime. A refused alarm is skipped without
// effect on other alarms, and retried.
func TestAlertmanager(t *testing.T) {
	r := newRig(t)
	m := newManager(t)
	a := r.publishEvent(raisedEvent("rub", "a")) // before the output runs
	out := &notify.Alertmanager{
		Job: "job", URL: m.URL + "/prefix/", Labels: map[string]string{"severity": "warning", "rub/severity": "critical", "site": "north"},
		Resend: 20 * time.Millisecond, First: time.Millisecond, Log: r.log,
	}
	is := func(wantOn, wantOff string) {
		t.Helper()
		r.waitFor(fmt.Sprintf("on: %s; off: %s", wantOn, wantOff), func() bool {
			on, off := m.keys()
			return on == wantOn && off == wantOff
		})
	}
	p := r.startProcess(out)
	is("a", "")
	b := r.publishEvent(raisedEvent("flat", "b"))
	is("a b", "")
	m.change(func() { // Alertmanager was killed and is unreachable
		m.alerts = map[string]postable{}
		m.fail = func(n int) int {
			return []int{http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusFound, http.StatusNotFound}[n%4]
		}
	})
	r.publishEvent(clearedEvent("rub", "a", a))
	r.publishEvent(raisedEvent("flat", "bad"))
	r.publishEvent(raisedEvent("flat", "bad too"))
	m.change(func() { m.n = 0 })
	r.waitFor("many tries", func() (many bool) {
		m.change(func() { many = m.n > 6 })
		return many
	})
	is("", "")
	m.change(func() { m.fail = nil })
	is("b", "a")
	p.kill()
	r.publishEvent(clearedEvent("flat", "b", b)) // while no process runs
	r.publishEvent(raisedEvent("flat", "c"))
	m.change(func() { clear(m.alerts) })
	p = r.startProcess(out)
	is("c", "a b")
	taken := 0
	m.change(func() { taken = m.taken })
	r.waitFor("being told again", func() (again bool) {
		m.change(func() { again = m.taken > taken+20 })
		return again
	})
	m.change(func() {
		for _, one := range m.alerts {
			severity := map[string]string{"rub": "critical", "flat": "warning"}[one.Labels["alertname"]]
			if one.Labels["severity"] != severity || one.Labels["site"] != "north" || one.Labels["job"] != "job" || len(one.Labels) != 5 {
				t.Errorf("labels %v", one.Labels)
			}
		}
	})
	m.change(func() { m.acceptsAll = true })
	r.waitFor("what was refused", func() (all bool) {
		keys := map[string]bool{}
		m.change(func() {
			for _, one := range m.alerts {
				keys[one.Labels["key"]] = true
			}
		})
		return keys["bad"] && keys["bad too"]
	})
	r.stopProcess(p)
	var log []alarm.Event
	if err := watch.ReadEvents(t.Context(), r.js, "job", time.Unix(1, 0), false, func(e alarm.Event) error { log = append(log, e); return nil }); err != nil || len(log) != 7 {
		t.Errorf("%d events, want those that were put: %v", len(log), err)
	}
}

// TestAlertSays: an alert has the prediction's data, with valid annotation names, and the person
// who acknowledged the alarm. An alarm cleared long ago is not sent.
func TestAlertSays(t *testing.T) {
	r := newRig(t)
	m := newManager(t)
	e := raisedEvent("hot", "pump.7 ä")
	e.Class, e.Probability = "heat", .5
	e.Evidence.Novelty, e.NoveltyP, e.Estimate = 2, .25, &alarm.Estimate{Value: 90, Low: 80, High: 100}
	e.Channels = []alarm.ChannelShare{{Channel: 2, Share: 1, Input: "pace", Deviation: -3}}
	n := r.publishEvent(e)
	old := clearedEvent("hot", "a", 1)
	old.Time = time.Now().Add(-3 * notify.Expire).UTC()
	old.Since = old.Time
	r.publishEvent(old)
	p := r.startProcess(&notify.Alertmanager{Job: "job", URL: m.URL + "/prefix", First: time.Millisecond, Log: r.log})
	said := func() (p postable) {
		m.change(func() {
			for _, p = range m.alerts {
			}
		})
		return p
	}
	r.waitFor("the alarm", func() bool { on, _ := m.keys(); return on == "pump.7 ä" })
	first := said()
	want := map[string]string{
		"id": "log-1", "alarm": "1", "stream": "pump.7 ä", "class": "heat", "probability": "0.5", "novelty": "2", "novelty_p": "0.25", "value": "90", "low": "80", "high": "100", "channels": "channel 2: 100 % (pace -3)",
		"summary": "hot pump.7 ä: heat, probability 0.5, 90 [80, 100], novelty p 0.25, channel 2: 100 % (pace -3)",
	}
	if fmt.Sprint(first.Annotations) != fmt.Sprint(want) {
		t.Errorf("it says %v\nwant %v", first.Annotations, want)
	}
	if !first.StartsAt.Equal(e.Since.Truncate(time.Millisecond)) {
		t.Errorf("it began at %v, want %v", first.StartsAt, e.Since)
	}
	e.Kind, e.Who, e.Alarm = alarm.Acknowledged, "anna", n
	r.publishEvent(e)
	r.waitFor("the acknowledgement", func() bool { return said().Annotations["acknowledged_by"] == "anna" })
	e.Kind, e.Who, e.Time = alarm.Cleared, "", time.Now().UTC()
	r.publishEvent(e)
	r.waitFor("the end", func() bool { _, off := m.keys(); return off == "pump.7 ä" })
	if last := said(); !last.EndsAt.Equal(e.Time.Truncate(time.Millisecond)) || !last.StartsAt.Equal(first.StartsAt) {
		t.Errorf("it was from %v until %v, want %v until %v", last.StartsAt, last.EndsAt, e.Since, e.Time)
	}
	r.stopProcess(p)
	if len(m.alerts) != 1 {
		t.Errorf("%v, want one alert", m.alerts)
	}
}

// TestAlertmanagerWrong: a wrong address or label is reported before the first alarm, and the log
// reports an unsuitable receiver.
func TestAlertmanagerWrong(t *testing.T) {
	for address, ok := range map[string]bool{
		"http://h:9093": true, "https://u:p@h/prefix/": true, "": false, "h:9093": false, "ftp://h": false, "http://h/api/v2/alerts": false, "http://h?x=1": false, "http://": false,
	} {
		err := notify.CheckAlertmanager(address)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), ":p@") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for name, ok := range map[string]bool{"severity": true, "rub/severity": true, "a1": true, "1a": false, "a b": false, "": false, "/a": false, "rub/": false, "job": false, "rub/key": false, "alertname": false} {
		if err := notify.CheckLabels(map[string]string{name: "x"}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer late.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	r := newRig(t)
	for url, says := range map[string]string{other.URL: "no Alertmanager API v2", late.URL: "synchronize both (NTP)", "http://127.0.0.1:1": "no program listens there"} {
		said := new(pipelinetest.LogBook)
		p := r.startProcess(&notify.Alertmanager{Job: "job", URL: url, First: time.Millisecond, Log: said.Logger()})
		r.waitFor(says, func() bool { return strings.Contains(said.String(), says) }) // without an alarm
		r.stopProcess(p)
	}
	m := newManager(t)
	p := r.startProcess(&notify.Alertmanager{Job: "job", URL: m.URL + "/prefix", Resend: time.Millisecond, Log: r.log})
	r.waitFor("being asked again, without an alarm", func() (again bool) {
		m.change(func() { again = m.n > 3 && m.taken == 0 })
		return again
	})
	r.stopProcess(p)
}
