package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/urls"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

const (
	// Resend is the interval at which each active alarm is resent to Alertmanager.
	Resend = time.Minute
	// Expire is the time after which Alertmanager ends an alarm without a new message. It bridges a
	// restart of this machine: a stopped process does not end the alarms.
	Expire = 15 * time.Minute

	mostAlerts = 256 // per request
	alertsPath = "/api/v2/alerts"
)

// Alertmanager repeatedly sends the active alarms of a job to Prometheus' Alertmanager (API v2:
// 0.16 and later), and the cleared alarms for a time.
type Alertmanager struct {
	Job    string
	URL    string            // with Alertmanager's path prefix, if any
	Labels map[string]string // additional labels, see CheckLabels
	TLS    *tls.Config       // nil = the system's certificates
	Resend time.Duration     // 0 = Resend
	First  time.Duration     // wait after the first failure, doubled each time; 0 = 1 s
	Log    *slog.Logger
}

// Prepare implements Output. Alertmanager needs no stored position.
func (a *Alertmanager) Prepare(ctx context.Context, nc *nats.Conn) error {
	if err := CheckLabels(a.Labels); err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err == nil {
		err = watch.EnsureStreams(ctx, js, a.Job, 0)
	}
	if err != nil {
		return fmt.Errorf("notify: alertmanager: %w", err)
	}
	return nil
}

// Run implements Output.
func (a *Alertmanager) Run(ctx context.Context, nc *nats.Conn) error {
	t := &alertSender{options: a, client: newClient(a.TLS), address: strings.TrimSuffix(a.URL, "/") + alertsPath}
	return retryReading(ctx, nc, "alertmanager", a.Log, t.followAndSend)
}

// alertSender is a running Alertmanager output.
type alertSender struct {
	options     *Alertmanager
	client      *http.Client
	address     string
	alerts      map[alertKey]*alertState // active and recently cleared alarms
	lastRequest time.Time                // time of the last request
	reached     bool                     // the last request succeeded
	clockWarned bool                     // a clock difference was logged
}

// alertKey identifies an alarm.
type alertKey struct{ rule, key string }

// alertState is an alarm and its state at Alertmanager.
type alertState struct {
	event   alarm.Event // last event
	sent    time.Time   // last successful request; zero = none
	refused time.Time   // last refusal; zero = none
}

// followAndSend reads the log and sends alarms until ctx ends or reading fails.
func (t *alertSender) followAndSend(ctx context.Context, js jetstream.JetStream) error {
	reading, stop := context.WithCancel(ctx)
	events, failed := make(chan alarm.Event, mostAlerts), make(chan error, 1)
	go func() {
		failed <- watch.FollowAlarms(reading, js, t.options.Job, func(e alarm.Event) error {
			select {
			case events <- e:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
		close(events)
	}()
	defer func() {
		stop()
		for range events { // wait until the reader has ended
		}
	}()
	t.alerts = map[alertKey]*alertState{}
	wait, ask := time.Duration(0), true // ask: send a request even without alarms, to find out whether Alertmanager is reachable
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return cmp.Or(err, errors.New("the alarm log has ended"))
		case e, more := <-events:
			if more {
				t.noteEvent(e)
			}
			if wait > 0 || len(events) > 0 { // after a failure, or while existing events are unread
				continue
			}
		case <-timer.C:
		}
		err := t.sendDue(ctx, ask)
		if ctx.Err() != nil {
			return nil
		}
		if ask = err != nil; err == nil {
			wait = 0
			timer.Reset(cmp.Or(t.options.Resend, Resend) / 4)
			continue
		}
		wait = min(max(2*wait, cmp.Or(t.options.First, time.Second)), maxBackoff)
		t.reached = false
		for _, state := range t.alerts { // Alertmanager may have restarted without its data
			state.sent = time.Time{}
		}
		t.options.Log.Warn("alertmanager: cannot send alarms: retrying", "at", urls.Redact(t.options.URL), "in", max(wait, requestedWait(err)), "err", err)
		timer.Reset(max(wait, requestedWait(err)))
	}
}

// isExpired reports whether an alarm was cleared so long ago that Alertmanager has ended it without
// a message.
func isExpired(e *alarm.Event, now time.Time) bool {
	return e.Kind == alarm.Cleared && now.Sub(e.Time) > 2*Expire
}

// noteEvent updates the alarms with an event of the log.
func (t *alertSender) noteEvent(e alarm.Event) {
	if isExpired(&e, time.Now()) { // old: each key that ever had an alarm has such an event
		delete(t.alerts, alertKey{e.Rule, e.Key})
		return
	}
	t.alerts[alertKey{e.Rule, e.Key}] = &alertState{event: e}
}

// sendDue sends changed alarms, and resends alarms after the interval. Without due alarms it sends
// an empty request once per interval, with ask immediately: an unreachable Alertmanager must be
// detected before the first alarm.
func (t *alertSender) sendDue(ctx context.Context, ask bool) error {
	now, every := time.Now(), cmp.Or(t.options.Resend, Resend)
	var due, refused []*alertState
	for key, state := range t.alerts {
		if isExpired(&state.event, now) {
			delete(t.alerts, key)
			continue
		}
		switch {
		case !state.refused.IsZero():
			if now.Sub(state.refused) >= every { // the labels or Alertmanager's configuration may be corrected by now
				refused = append(refused, state)
			}
		case state.sent.IsZero() || now.Sub(state.sent) >= every:
			due = append(due, state)
		}
	}
	slices.SortFunc(due, func(a, b *alertState) int { return cmp.Compare(a.event.Number, b.event.Number) })
	if len(due) == 0 && (ask || now.Sub(t.lastRequest) >= every) {
		return t.postAlerts(ctx, nil, now)
	}
	for chunk := range slices.Chunk(due, mostAlerts) {
		err := t.postAlerts(ctx, chunk, now)
		if errors.Is(err, errRefused) { // one alarm is refused: the other alarms may be accepted or not
			err = t.sendSeparately(ctx, chunk, now)
		}
		if err != nil {
			return err
		}
		for _, state := range chunk {
			state.sent = now
		}
	}
	return t.sendSeparately(ctx, refused, now)
}

// sendSeparately sends each alarm in its own request. A refused alarm is retried later in its own
// request.
func (t *alertSender) sendSeparately(ctx context.Context, alerts []*alertState, now time.Time) error {
	for _, state := range alerts {
		err := t.postAlerts(ctx, []*alertState{state}, now)
		if errors.Is(err, errRefused) {
			level := slog.LevelDebug // logged once
			if state.refused.IsZero() {
				level = slog.LevelError
			}
			state.refused = now
			t.options.Log.Log(ctx, level, "alertmanager: an alarm was refused; retrying", "in", cmp.Or(t.options.Resend, Resend), "number", state.event.Number, "rule", state.event.Rule, "key", state.event.Key, "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if !state.refused.IsZero() {
			state.refused, state.sent = time.Time{}, now
			t.options.Log.Info("alertmanager: accepted a previously refused alarm", "number", state.event.Number, "rule", state.event.Rule, "key", state.event.Key)
		}
	}
	return nil
}

// postAlerts sends alarms in one request.
func (t *alertSender) postAlerts(ctx context.Context, states []*alertState, now time.Time) error {
	alerts := make([]alert, len(states))
	for i := range states {
		alerts[i] = t.newAlert(&states[i].event, now)
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return err
	}
	t.lastRequest = now
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	answer, err := postJSON(limited, t.client, t.address, body, nil)
	var refused *refusal
	if errors.As(err, &refused) && (refused.code == http.StatusNotFound || refused.code == http.StatusMethodNotAllowed || refused.code == http.StatusGone) {
		return fmt.Errorf("%w: no Alertmanager API v2 at %s: configure the address of Alertmanager 0.16 or later, including its path prefix (--web.route-prefix)", err, urls.Redact(t.address))
	}
	if err != nil {
		return err
	}
	if !t.reached {
		t.reached = true
		t.options.Log.Info("alertmanager: sending alarms", "at", urls.Redact(t.options.URL))
	}
	t.compareClocks(answer)
	return nil
}

// compareClocks warns once if the receiver's clock differs so much that an active alarm seems
// ended.
func (t *alertSender) compareClocks(answer *http.Response) {
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if off := time.Since(there); err == nil && !t.clockWarned && off.Abs() > Expire/3 {
		t.clockWarned = true
		t.options.Log.Warn("alertmanager: its clock differs from this machine's clock: synchronize both (NTP), otherwise active alarms appear ended", "differs", off.Abs().Round(time.Second))
	}
}

// alert is an alarm in Alertmanager's format.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    string            `json:"startsAt"`
	EndsAt      string            `json:"endsAt"`
}

const alertTime = "2006-01-02T15:04:05.000Z07:00"

// newAlert returns an event's alert. Alertmanager identifies the alarm by its labels: all events of
// an alarm have the same labels.
func (t *alertSender) newAlert(e *alarm.Event, now time.Time) alert {
	labels := map[string]string{}
	for _, ofRule := range []bool{false, true} { // labels of the rule override labels of all rules
		for name, value := range t.options.Labels {
			rule, label, qualified := strings.Cut(name, "/")
			if !qualified {
				label = name
			}
			if qualified == ofRule && (!qualified || rule == e.Rule) {
				labels[label] = value
			}
		}
	}
	maps.Copy(labels, map[string]string{"alertname": e.Rule, "job": t.options.Job, "key": e.Key})
	begun, end := e.Since, now.Add(Expire)
	if begun.IsZero() || begun.After(e.Time) {
		begun = e.Time
	}
	if e.Kind == alarm.Cleared {
		end = e.Time
	}
	return alert{labels, newAnnotations(e), begun.UTC().Format(alertTime), end.UTC().Format(alertTime)}
}

// newAnnotations returns the details of an event.
func newAnnotations(e *alarm.Event) map[string]string {
	details := map[string]string{"id": e.ID, "alarm": fmt.Sprint(e.Alarm)}
	var parts []string
	add := func(name, text, format string) {
		if text != "" {
			details[name] = text
			parts = append(parts, fmt.Sprintf(format, text))
		}
	}
	add("class", e.Class, "%s")
	if e.Probability > 0 {
		details["probability"] = fmt.Sprint(e.Probability)
		parts = append(parts, fmt.Sprintf("probability %.3g", e.Probability))
	}
	if e.Estimate != nil {
		details["value"], details["low"], details["high"] = fmt.Sprint(e.Value), fmt.Sprint(e.Low), fmt.Sprint(e.High)
		parts = append(parts, fmt.Sprintf("%.6g [%.6g, %.6g]", e.Value, e.Low, e.High))
	}
	if e.NoveltyP > 0 {
		details["novelty"], details["novelty_p"] = fmt.Sprint(e.Novelty), fmt.Sprint(e.NoveltyP)
		parts = append(parts, fmt.Sprintf("novelty p %.3g", e.NoveltyP))
	}
	add("level", e.NoveltyText(), "%s")
	add("change", e.Change, "%s")
	add("channels", e.ChannelsText(), "%s")
	if e.Kind == alarm.Acknowledged {
		add("acknowledged_by", e.Who, "acknowledged by %s")
	}
	add("why", e.Why, "%s")
	if e.Stream != "" {
		details["stream"] = e.Stream
	}
	details["summary"] = e.Rule + " " + e.Key
	if e.Kind == alarm.Cleared {
		details["summary"] += " cleared"
	}
	if len(parts) > 0 {
		details["summary"] += ": " + strings.Join(parts, ", ")
	}
	return details
}

// CheckAlertmanager checks the address of an Alertmanager.
func CheckAlertmanager(address string) error {
	u, err := urls.Parse(address, "http", "https")
	if err == nil && u.RawQuery == "" && u.Fragment == "" {
		if !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), alertsPath) {
			return nil
		}
	}
	return fmt.Errorf("notify: Alertmanager at %q: want a URL such as http://host:9093, without %s", urls.Redact(address), alertsPath)
}

// CheckLabels checks labels: NAME for all rules, RULE/NAME for one rule.
func CheckLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		rule, label, qualified := strings.Cut(name, "/")
		if !qualified {
			label, rule = name, "r"
		}
		switch {
		case !isLabelName(label) || rule == "":
			return fmt.Errorf("notify: label %q: want letters, digits and _, no digit first, such as severity; for one rule, RULE/severity", name)
		case label == "alertname" || label == "job" || label == "key":
			return fmt.Errorf("notify: label %q: alertname, job and key identify an alarm: want another name", name)
		}
	}
	return nil
}

// isLabelName reports whether a name is a valid label name.
func isLabelName(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') && (i == 0 || !('0' <= c && c <= '9')) {
			return false
		}
	}
	return name != ""
}
