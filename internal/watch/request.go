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

// Acknowledgement asks that an alarm be acknowledged, as JSON on
// <job>.alarms.acknowledge.
type Acknowledgement struct {
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	Alarm uint64 `json:"alarm,omitempty"` // its number; 0 = the one that is on
	Who   string `json:"who"`
}

// RuleSet asks that these rules hold from now on, as JSON on <job>.alarms.rules.
type RuleSet struct {
	Rules map[string]string `json:"rules"` // all
	Who   string            `json:"who"`
}

// answer is what the process says to a request.
type answer struct {
	Event *alarm.Event `json:"event,omitempty"`
	Error string       `json:"error,omitempty"`
}

// maxRequest bounds a request.
const maxRequest = 1 << 20

// parse reads a request.
func parse(data []byte, to any) error {
	if len(data) > maxRequest {
		return fmt.Errorf("a request of %d bytes, want at most %d", len(data), maxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("the request is not read: %w", err)
	}
	return nil
}

// ParseAcknowledgement reads one.
func ParseAcknowledgement(data []byte) (a Acknowledgement, err error) {
	if err = parse(data, &a); err == nil && a.Rule == "" {
		err = errors.New("the request names no rule")
	}
	if err == nil {
		err = checkWho(a.Who)
	}
	return a, err
}

func checkWho(who string) error {
	if who == "" {
		return errors.New("the request does not say who asks (who)")
	}
	return names.Check("who", who)
}

// fact is the event that a request asks for.
func (w *watcher) fact(m *nats.Msg, now time.Time) (alarm.Event, error) {
	switch m.Subject {
	case wire.AlarmAckSubject(w.Job):
		a, err := ParseAcknowledgement(m.Data)
		if err != nil {
			return alarm.Event{}, err
		}
		return w.fold.Acknowledge(a.Rule, a.Key, a.Alarm, a.Who, now)
	case wire.AlarmSetSubject(w.Job):
		var s RuleSet
		if err := errors.Join(parse(m.Data, &s), checkWho(s.Who)); err != nil {
			return alarm.Event{}, err
		}
		rules, err := alarm.ParseRules(s.Rules)
		if err != nil {
			return alarm.Event{}, err
		}
		_, configured := w.fold.Rules()
		return w.fold.ChangeRules(rules, configured, s.Who, now), nil
	}
	return alarm.Event{}, fmt.Errorf("nothing is asked for on %s", m.Subject)
}

// answer does what a request asks for. Its error is one of the log, not of the request.
func (w *watcher) answer(ctx context.Context, m *nats.Msg) error {
	if m.Subject != wire.AlarmAckSubject(w.Job) && m.Subject != wire.AlarmSetSubject(w.Job) || m.Reply != "" && !natsclient.AnswersTo(w.process.nc, m.Reply) {
		w.say("foreign", "a message that is no request came to where the alarms are acknowledged: a consumer delivers there; it is ignored, and further ones without a word", "subject", m.Subject, "reply", m.Reply)
		return nil
	}
	e, wrong := w.fact(m, time.Now())
	if wrong == nil {
		if err := w.add(ctx, e); err != nil {
			return err
		}
	}
	if m.Reply == "" {
		if wrong != nil {
			w.Log.Warn("a request is refused", "subject", m.Subject, "err", wrong)
		}
		return nil
	}
	a := answer{Event: &e}
	if wrong != nil {
		a = answer{Error: wrong.Error()}
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		w.Log.Warn("a request has no answer", "subject", m.Subject, "err", err)
	}
	return nil
}

// ErrRefused is a request that the process refuses, ErrNobody one that nobody has heard.
var (
	ErrRefused = errors.New("refused")
	ErrNobody  = errors.New("no process keeps the alarms of this job now: start eusn-stream alarms run")
)

// Acknowledge acknowledges an alarm.
func Acknowledge(ctx context.Context, nc *nats.Conn, job string, a Acknowledgement) (alarm.Event, error) {
	return ask(ctx, nc, wire.AlarmAckSubject(job), a)
}

// SetRules makes other rules hold from now on, until somebody sets others or the
// configuration of the process is changed.
func SetRules(ctx context.Context, nc *nats.Conn, job string, s RuleSet) (alarm.Event, error) {
	return ask(ctx, nc, wire.AlarmSetSubject(job), s)
}

func ask(ctx context.Context, nc *nats.Conn, subject string, request any) (alarm.Event, error) {
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
		return alarm.Event{}, fmt.Errorf("watch: no answer on %s, so it is not known whether it was done: %w", subject, err)
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return alarm.Event{}, fmt.Errorf("watch: the answer on %s is not read: %w", subject, err)
	}
	if a.Error != "" || a.Event == nil {
		return alarm.Event{}, fmt.Errorf("watch: %w: %s", ErrRefused, a.Error)
	}
	return *a.Event, nil
}

// fingerprint is what rules are compared by.
func fingerprint(r alarm.Rules) string {
	text, err := json.Marshal(r.Texts())
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
