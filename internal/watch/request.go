package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Acknowledgement requests the acknowledgement of an alarm, as JSON on <job>.alarms.acknowledge.
type Acknowledgement struct {
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	Alarm uint64 `json:"alarm,omitempty"` // the alarm's number; 0 = the active alarm
	Who   string `json:"who"`
}

// RuleSet requests new rules, as JSON on <job>.alarms.rules.
type RuleSet struct {
	Rules map[string]string `json:"rules"` // the complete set
	Who   string            `json:"who"`
}

// response is the process's reply to a request.
type response struct {
	Event *alarm.Event `json:"event,omitempty"`
	Error string       `json:"error,omitempty"`
}

// maxRequestBytes bounds a request.
const maxRequestBytes = 1 << 20

// parseRequest parses a request.
func parseRequest(data []byte, to any) error {
	if len(data) > maxRequestBytes {
		return fmt.Errorf("a request of %d bytes, want at most %d", len(data), maxRequestBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("cannot parse the request: %w", err)
	}
	return nil
}

// ParseAcknowledgement parses and checks an acknowledgement.
func ParseAcknowledgement(data []byte) (a Acknowledgement, err error) {
	if err = parseRequest(data, &a); err == nil && a.Rule == "" {
		err = errors.New("the request names no rule")
	}
	if err == nil {
		err = checkWho(a.Who)
	}
	return a, err
}

func checkWho(who string) error {
	if who == "" {
		return errors.New("the request lacks the person's name (who)")
	}
	return names.Check("who", who)
}

// requestedEvent returns the event for a request.
func (w *watcher) requestedEvent(m *nats.Msg, now time.Time) (alarm.Event, error) {
	switch m.Subject {
	case wire.AlarmAckSubject(w.Job):
		a, err := ParseAcknowledgement(m.Data)
		if err != nil {
			return alarm.Event{}, err
		}
		return w.fold.Acknowledge(a.Rule, a.Key, a.Alarm, a.Who, now)
	case wire.AlarmSetSubject(w.Job):
		var s RuleSet
		if err := errors.Join(parseRequest(m.Data, &s), checkWho(s.Who)); err != nil {
			return alarm.Event{}, err
		}
		rules, err := alarm.ParseRules(s.Rules)
		if err != nil {
			return alarm.Event{}, err
		}
		_, configured := w.fold.Rules()
		return w.fold.ChangeRules(rules, configured, s.Who, now), nil
	}
	return alarm.Event{}, fmt.Errorf("no requests are accepted on %s", m.Subject)
}

// answerRequest executes a request. An error concerns the log, not the request.
func (w *watcher) answerRequest(ctx context.Context, m *nats.Msg) error {
	if m.Subject != wire.AlarmAckSubject(w.Job) && m.Subject != wire.AlarmSetSubject(w.Job) || m.Reply != "" && !natsclient.AnswersTo(w.process.nc, m.Reply) {
		w.warnOnce("foreign", "ignored a message on a request subject that is no request: a consumer delivers there; further messages are ignored silently", "subject", m.Subject, "reply", m.Reply)
		return nil
	}
	e, wrong := w.requestedEvent(m, time.Now())
	if wrong == nil {
		if err := w.addFact(ctx, e); err != nil {
			return err
		}
	}
	if m.Reply == "" {
		if wrong != nil {
			w.Log.Warn("request refused", "subject", m.Subject, "err", wrong)
		}
		return nil
	}
	a := response{Event: &e}
	if wrong != nil {
		a = response{Error: wrong.Error()}
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		w.Log.Warn("cannot answer a request", "subject", m.Subject, "err", err)
	}
	return nil
}

// ErrRefused means that the process refuses a request, ErrNobody that no process received the
// request.
var (
	ErrRefused = errors.New("refused")
	ErrNobody  = errors.New("no process keeps the alarms of this job")
)

// Acknowledge acknowledges an alarm.
func Acknowledge(ctx context.Context, nc *nats.Conn, job string, a Acknowledgement) (alarm.Event, error) {
	return sendRequest(ctx, nc, wire.AlarmAckSubject(job), a)
}

// SetRules activates other rules until the next SetRules or until the configuration of the process
// changes.
func SetRules(ctx context.Context, nc *nats.Conn, job string, s RuleSet) (alarm.Event, error) {
	return sendRequest(ctx, nc, wire.AlarmSetSubject(job), s)
}

func sendRequest(ctx context.Context, nc *nats.Conn, subject string, request any) (alarm.Event, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return alarm.Event{}, fmt.Errorf("watch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return alarm.Event{}, fmt.Errorf("watch: %w", ErrNobody)
	}
	if err != nil {
		return alarm.Event{}, fmt.Errorf("watch: no answer on %s: the request may or may not have been executed: %w", subject, err)
	}
	var a response
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return alarm.Event{}, fmt.Errorf("watch: cannot parse the answer on %s: %w", subject, err)
	}
	if a.Error != "" || a.Event == nil {
		return alarm.Event{}, fmt.Errorf("watch: %w: %s", ErrRefused, a.Error)
	}
	return *a.Event, nil
}

// fingerprint returns a hash for the comparison of rules.
func fingerprint(r alarm.Rules) string {
	text, err := json.Marshal(r.Texts())
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
