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
	// Resend is how often Alertmanager is told of each alarm that is on.
	Resend = time.Minute
	// Expire is how long an alarm stays on there after the last word of this process. It
	// bridges a restart of this machine: that a process is away does not mean that the
	// alarms are over.
	Expire = 15 * time.Minute

	mostAlerts = 256 // of one request
	alertsPath = "/api/v2/alerts"
)

// Alertmanager tells Prometheus' Alertmanager (API v2: 0.16 and later) which alarms of a
// job are on, again and again, and which were cleared.
type Alertmanager struct {
	Job    string
	URL    string            // with Alertmanager's path prefix, where it has one
	Labels map[string]string // more labels, see CheckLabels
	TLS    *tls.Config       // nil = what the system trusts
	Resend time.Duration     // 0 = Resend
	First  time.Duration     // wait after the first failure, twice as long each time; 0 = a second
	Log    *slog.Logger
}

// Begin is Output's: nothing has to be remembered.
func (a *Alertmanager) Begin(ctx context.Context, nc *nats.Conn) error {
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

// Run is Output's.
func (a *Alertmanager) Run(ctx context.Context, nc *nats.Conn) error {
	t := &teller{o: a, client: newClient(a.TLS), address: strings.TrimSuffix(a.URL, "/") + alertsPath}
	return again(ctx, nc, "alertmanager", a.Log, t.tell)
}

// teller is an Alertmanager at work.
type teller struct {
	o       *Alertmanager
	client  *http.Client
	address string
	known   map[at]*told // what is on, and what was cleared lately
	asked   time.Time    // the last request
	reached bool         // it was taken
	clock   bool         // that the clocks differ was said
}

// at is what an alarm is about.
type at struct{ rule, key string }

// told is an alarm, and what Alertmanager knows of it.
type told struct {
	event   alarm.Event // the last one
	sent    time.Time   // when that was taken; zero = not yet
	refused time.Time   // when it was refused last; zero = it was not
}

// tell reads the log and sends, until ctx ends or reading fails.
func (t *teller) tell(ctx context.Context, js jetstream.JetStream) error {
	reading, stop := context.WithCancel(ctx)
	events, failed := make(chan alarm.Event, mostAlerts), make(chan error, 1)
	go func() {
		failed <- watch.FollowAlarms(reading, js, t.o.Job, func(e alarm.Event) error {
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
		for range events { // the reader has ended when this does
		}
	}()
	t.known = map[at]*told{}
	wait, ask := time.Duration(0), true // ask: is it there at all?
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
				t.note(e)
			}
			if wait > 0 || len(events) > 0 { // after a failure, or until all that is there was read
				continue
			}
		case <-timer.C:
		}
		err := t.send(ctx, ask)
		if ctx.Err() != nil {
			return nil
		}
		if ask = err != nil; err == nil {
			wait = 0
			timer.Reset(cmp.Or(t.o.Resend, Resend) / 4)
			continue
		}
		wait = min(max(2*wait, cmp.Or(t.o.First, time.Second)), mostBackoff)
		t.reached = false
		for _, one := range t.known { // it may have been started again, and have forgotten all
			one.sent = time.Time{}
		}
		t.o.Log.Warn("alertmanager: it was not told of the alarms: trying again", "at", urls.Redact(t.o.URL), "in", max(wait, askedWait(err)), "err", err)
		timer.Reset(max(wait, askedWait(err)))
	}
}

// over reports whether an alarm was cleared so long ago that it has ended there by itself.
func over(e *alarm.Event, now time.Time) bool {
	return e.Kind == alarm.Cleared && now.Sub(e.Time) > 2*Expire
}

// note takes an event of the log.
func (t *teller) note(e alarm.Event) {
	if over(&e, time.Now()) { // of before: one for each key that ever had an alarm
		delete(t.known, at{e.Rule, e.Key})
		return
	}
	t.known[at{e.Rule, e.Key}] = &told{event: e}
}

// send tells of what has changed, and again of what was told long ago. Where there is
// nothing to tell, it asks now and then whether somebody is there, with ask at once: that
// must not be found out by the first alarm.
func (t *teller) send(ctx context.Context, ask bool) error {
	now, every := time.Now(), cmp.Or(t.o.Resend, Resend)
	var due, refused []*told
	for which, one := range t.known {
		if over(&one.event, now) {
			delete(t.known, which)
			continue
		}
		switch {
		case !one.refused.IsZero():
			if now.Sub(one.refused) >= every { // its labels, or that Alertmanager, may be mended
				refused = append(refused, one)
			}
		case one.sent.IsZero() || now.Sub(one.sent) >= every:
			due = append(due, one)
		}
	}
	slices.SortFunc(due, func(a, b *told) int { return cmp.Compare(a.event.Number, b.event.Number) })
	if len(due) == 0 && (ask || now.Sub(t.asked) >= every) {
		return t.post(ctx, nil, now)
	}
	for some := range slices.Chunk(due, mostAlerts) {
		err := t.post(ctx, some, now)
		if errors.Is(err, errUnwanted) { // one of them: the others are taken, or not
			err = t.single(ctx, some, now)
		}
		if err != nil {
			return err
		}
		for _, one := range some {
			one.sent = now
		}
	}
	return t.single(ctx, refused, now)
}

// single tells of each alone. What is refused then is tried again later, alone.
func (t *teller) single(ctx context.Context, some []*told, now time.Time) error {
	for _, one := range some {
		err := t.post(ctx, []*told{one}, now)
		if errors.Is(err, errUnwanted) {
			level := slog.LevelDebug // said once
			if one.refused.IsZero() {
				level = slog.LevelError
			}
			one.refused = now
			t.o.Log.Log(ctx, level, "alertmanager: an alarm is refused, and tried again", "in", cmp.Or(t.o.Resend, Resend), "number", one.event.Number, "rule", one.event.Rule, "key", one.event.Key, "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if !one.refused.IsZero() {
			one.refused, one.sent = time.Time{}, now
			t.o.Log.Info("alertmanager: it takes an alarm that it refused", "number", one.event.Number, "rule", one.event.Rule, "key", one.event.Key)
		}
	}
	return nil
}

// post sends alarms in one request.
func (t *teller) post(ctx context.Context, some []*told, now time.Time) error {
	alerts := make([]alert, len(some))
	for i := range some {
		alerts[i] = t.alert(&some[i].event, now)
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return err
	}
	t.asked = now
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	answer, err := post(limited, t.client, t.address, body, nil)
	var no *answered
	if errors.As(err, &no) && (no.code == http.StatusNotFound || no.code == http.StatusMethodNotAllowed || no.code == http.StatusGone) {
		return fmt.Errorf("%w: there is no Alertmanager's API v2 at %s: give the address of Alertmanager 0.16 or later, with its path prefix where it has one (--web.route-prefix)", err, urls.Redact(t.address))
	}
	if err != nil {
		return err
	}
	if !t.reached {
		t.reached = true
		t.o.Log.Info("alertmanager: it is told of the alarms", "at", urls.Redact(t.o.URL))
	}
	t.compare(answer)
	return nil
}

// compare warns once where the receiver's clock differs so much that it takes an alarm
// that is on for one that has ended.
func (t *teller) compare(answer *http.Response) {
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if off := time.Since(there); err == nil && !t.clock && off.Abs() > Expire/3 {
		t.clock = true
		t.o.Log.Warn("alertmanager: its clock differs from this machine's: set both by NTP, or it takes alarms that are on for ended", "differs", off.Abs().Round(time.Second))
	}
}

// alert is an alarm as Alertmanager wants it.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    string            `json:"startsAt"`
	EndsAt      string            `json:"endsAt"`
}

const alertTime = "2006-01-02T15:04:05.000Z07:00"

// alert makes one. Its labels are those by which Alertmanager knows it: the same in all
// events of an alarm.
func (t *teller) alert(e *alarm.Event, now time.Time) alert {
	labels := map[string]string{}
	for _, own := range []bool{false, true} { // what is said of the rule stands over what is said of all
		for name, value := range t.o.Labels {
			rule, label, is := strings.Cut(name, "/")
			if !is {
				label = name
			}
			if is == own && (!is || rule == e.Rule) {
				labels[label] = value
			}
		}
	}
	maps.Copy(labels, map[string]string{"alertname": e.Rule, "job": t.o.Job, "key": e.Key})
	begun, end := e.Since, now.Add(Expire)
	if begun.IsZero() || begun.After(e.Time) {
		begun = e.Time
	}
	if e.Kind == alarm.Cleared {
		end = e.Time
	}
	return alert{labels, annotations(e), begun.UTC().Format(alertTime), end.UTC().Format(alertTime)}
}

// annotations are what the event says of the alarm.
func annotations(e *alarm.Event) map[string]string {
	all := map[string]string{"id": e.ID, "alarm": fmt.Sprint(e.Alarm)}
	var said []string
	add := func(name, text, format string) {
		if text != "" {
			all[name] = text
			said = append(said, fmt.Sprintf(format, text))
		}
	}
	add("class", e.Class, "%s")
	if e.Probability > 0 {
		all["probability"] = fmt.Sprint(e.Probability)
		said = append(said, fmt.Sprintf("probability %.3g", e.Probability))
	}
	if e.Estimate != nil {
		all["value"], all["low"], all["high"] = fmt.Sprint(e.Value), fmt.Sprint(e.Low), fmt.Sprint(e.High)
		said = append(said, fmt.Sprintf("%.6g [%.6g, %.6g]", e.Value, e.Low, e.High))
	}
	if e.NoveltyP > 0 {
		all["novelty"], all["novelty_p"] = fmt.Sprint(e.Novelty), fmt.Sprint(e.NoveltyP)
		said = append(said, fmt.Sprintf("novelty p %.3g", e.NoveltyP))
	}
	add("change", e.Change, "%s")
	if e.Kind == alarm.Acknowledged {
		add("acknowledged_by", e.Who, "acknowledged by %s")
	}
	add("why", e.Why, "%s")
	if e.Stream != "" {
		all["stream"] = e.Stream
	}
	all["summary"] = e.Rule + " " + e.Key
	if e.Kind == alarm.Cleared {
		all["summary"] += " cleared"
	}
	if len(said) > 0 {
		all["summary"] += ": " + strings.Join(said, ", ")
	}
	return all
}

// CheckAlertmanager says what is wrong with the address of an Alertmanager.
func CheckAlertmanager(address string) error {
	u, err := urls.Parse(address, "http", "https")
	if err == nil && u.RawQuery == "" && u.Fragment == "" {
		if !strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), alertsPath) {
			return nil
		}
	}
	return fmt.Errorf("notify: Alertmanager at %q: want a URL such as http://host:9093, without %s", urls.Redact(address), alertsPath)
}

// CheckLabels says what is wrong with labels: NAME for all rules, RULE/NAME for one.
func CheckLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		rule, label, is := strings.Cut(name, "/")
		if !is {
			label, rule = name, "r"
		}
		switch {
		case !plain(label) || rule == "":
			return fmt.Errorf("notify: label %q: want letters, digits and _, no digit first, such as severity; for one rule, RULE/severity", name)
		case label == "alertname" || label == "job" || label == "key":
			return fmt.Errorf("notify: label %q: alertname, job and key are those by which an alarm is known: want another name", name)
		}
	}
	return nil
}

// plain reports whether a name is one of a label.
func plain(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && !('a' <= c && c <= 'z') && !('A' <= c && c <= 'Z') && (i == 0 || !('0' <= c && c <= '9')) {
			return false
		}
	}
	return name != ""
}
