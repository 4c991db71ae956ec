package alarm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Kinds of events.
const (
	Raised       = "raised"
	Acknowledged = "acknowledged"
	Cleared      = "cleared"
	RulesChanged = "rules" // new rules from this position on
)

// Event is a message of the alarm log, as JSON.
type Event struct {
	Number uint64 `json:"number"` // of the event, from 1, without gaps
	Kind   string `json:"event"`  // raised, acknowledged, cleared or rules
	ID     string `json:"id"`     // of the event, for receivers that must act once
	// Alarm is the number of the event that raised the alarm.
	Alarm    uint64 `json:"alarm,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Key      string `json:"key,omitempty"`    // a stream, or the match of the rule's by
	Stream   string `json:"stream,omitempty"` // of the deciding prediction
	Class    string `json:"class,omitempty"`  // of the deciding prediction
	Evidence        // of the deciding prediction
	// Channels are the channels of the raising prediction that are unlike the training data, if the
	// model reads its inputs; not of cleared.
	Channels []ChannelShare `json:"channels,omitempty"`
	Since    time.Time      `json:"since,omitzero"`     // storage time of the first prediction that raised the alarm; for a silence, of the last prediction
	Time     time.Time      `json:"time"`               // server time of the deciding message
	Position uint64         `json:"position"`           // in the job's output: all messages up to this message have been judged
	Change   string         `json:"change,omitempty"`   // drift: up, down, wider, narrower, or several joined by +
	Accepted float32        `json:"accepted,omitempty"` // cleared by accept: novelty up to this level raises no alarm
	Replaces uint64         `json:"replaces,omitempty"` // raised by worse: the alarm of the smaller novelty, which has no cleared event
	Who      string         `json:"who,omitempty"`      // the person who acknowledged the alarm or changed the rules
	Why      string         `json:"why,omitempty"`      // reason for clearing, if not a prediction

	Rules      map[string]string `json:"rules,omitempty"`      // kind rules: the complete set
	Configured string            `json:"configured,omitempty"` // kind rules: fingerprint of the configuration

	judged []Place // see Logged
	by     Place
}

// Evidence is a prediction's data except its class. Data that the model does not provide is absent
// in JSON.
type Evidence struct {
	Probability float32 `json:"probability,omitempty"` // of the class, in (0, 1]
	Novelty     float32 `json:"novelty,omitempty"`     // distance from the training data: 1 is usual, without an upper bound
	NoveltyP    float32 `json:"novelty_p,omitempty"`   // p-value of Novelty, in (0, 1]
	*Estimate           // nil: the model predicts classes. The pointed-to value is constant
}

// Estimate is the number that a regression predicts, in its own unit.
type Estimate struct {
	Value float32 `json:"value"`
	Low   float32 `json:"low"` // lower end of the interval
	High  float32 `json:"high"`
}

// newEvidence returns a prediction's evidence without non-finite numbers, which JSON does not
// allow.
func newEvidence(p *codec.Prediction) (e Evidence) {
	if isFinite(p.Probability) {
		e.Probability = p.Probability
	}
	if p.NoveltyP > 0 && isFinite(p.NoveltyP) && isFinite(p.Novelty) {
		e.Novelty, e.NoveltyP = p.Novelty, p.NoveltyP
	}
	if n := p.Number; n.Known && isFinite(n.Value) && isFinite(n.Low) && isFinite(n.High) {
		e.Estimate = &Estimate{n.Value, n.Low, n.High}
	}
	return e
}

// maxEvent bounds the JSON of an event.
const maxEventBytes = 2 << 20

// addDetails adds the details of a raised or cleared event.
func (f *Fold) addDetails(e *Event, c *counter, r *Rule, p *codec.Prediction) {
	e.Channels = nil
	switch {
	case e.Kind == Raised:
		e.Change, e.Channels = c.Change, shareChannels(p.Inputs)
		if c.Alarm > 0 {
			e.Replaces, e.Since = c.Alarm, f.time
		}
	case !c.shouldClear(r, f.time):
		e.Accepted = c.Peak
	}
}

// NoveltyText describes the effect of accept or worse; empty: none.
func (e *Event) NoveltyText() string {
	switch {
	case e.Accepted > 0:
		return fmt.Sprintf("level accepted: novelty up to %.4g", e.Accepted)
	case e.Replaces > 0:
		return fmt.Sprintf("novelty %.4g, worse than alarm %d", e.Novelty, e.Replaces)
	}
	return ""
}

// Marshal encodes an event for the log.
func (e *Event) Marshal() ([]byte, error) {
	b, err := json.Marshal(e)
	if err == nil && len(b) > maxEventBytes {
		err = fmt.Errorf("%d bytes, want at most %d", len(b), maxEventBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("alarm: event %d: %w", e.Number, err)
	}
	return b, nil
}

// Unmarshal decodes an event.
func Unmarshal(data []byte) (Event, error) {
	var e Event
	if len(data) > maxEventBytes {
		return e, fmt.Errorf("alarm: an event of %d bytes, want at most %d", len(data), maxEventBytes)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("alarm: event: %w", err)
	}
	switch {
	case e.Number == 0:
		return e, errors.New("alarm: event without a number")
	case e.Kind == RulesChanged:
	case e.Kind != Raised && e.Kind != Acknowledged && e.Kind != Cleared:
		return e, fmt.Errorf("alarm: event %d is %q, want raised, acknowledged, cleared or rules", e.Number, e.Kind)
	case e.Rule == "" || e.Alarm == 0:
		return e, fmt.Errorf("alarm: event %d names no rule or no alarm", e.Number)
	}
	return e, nil
}

// Place identifies a prediction by its number in its partition: 1, 2, 3, ...
type Place struct {
	Partition int    `json:"partition"`
	Number    uint64 `json:"number"`
}

// Logged is an event of the log with the predictions judged before it.
type Logged struct {
	Event Event `json:"event"`
	// Judged has the number of judged predictions for each partition with predictions since the
	// previous event.
	Judged []Place `json:"judged,omitempty"`
	// By is the deciding prediction; the zero Place if there is none.
	By Place `json:"by,omitzero"`
}

// JudgedPlaces returns Logged.Judged and Logged.By for an event of JudgeMessage; for other events,
// by is zero.
func (e *Event) JudgedPlaces() (judged []Place, by Place) { return e.judged, e.by }

// PlacesText returns places in header form: 0:877 3:1201.
func PlacesText(all []Place) string {
	var b strings.Builder
	for i, p := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:%d", p.Partition, p.Number)
	}
	return b.String()
}

// ParsePlaces parses the result of PlacesText.
func ParsePlaces(text string) ([]Place, error) {
	var all []Place
	for field := range strings.FieldsSeq(text) {
		partition, number, ok := strings.Cut(field, ":")
		p, err1 := strconv.ParseUint(partition, 10, 31)
		n, err2 := strconv.ParseUint(number, 10, 64)
		if err := errors.Join(err1, err2); !ok || err != nil {
			return nil, fmt.Errorf("alarm: %q, want partition and number, such as 3:1201", field)
		}
		all = append(all, Place{int(p), n})
	}
	return all, nil
}

// tokenBytes are the bytes that a token keeps.
const tokenBytes = "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Token converts a name to a unique token for subjects and keys of NATS: letters, digits, - and _
// stay, as do single dots between other bytes; every other byte becomes = and two hex digits. A
// name of more than 256 bytes becomes == and its SHA-256, an empty name =.
func Token(name string) string {
	if name == "" {
		return "="
	}
	if len(name) > 256 {
		sum := sha256.Sum256([]byte(name))
		return "==" + hex.EncodeToString(sum[:]) // no escaped name has ==
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		dot := c == '.' && i > 0 && i < len(name)-1 && name[i-1] != '.'
		if dot || strings.IndexByte(tokenBytes, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "=%02X", c)
	}
	return b.String()
}
