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
	RulesChanged = "rules" // from here on other rules hold
)

// Event is a message of the alarm log, as JSON.
type Event struct {
	Number uint64 `json:"number"` // of the event, from 1, without gaps
	Kind   string `json:"event"`  // raised, acknowledged, cleared or rules
	ID     string `json:"id"`     // of the event, for whoever must do something once
	// Alarm is the number of the event that raised the alarm.
	Alarm    uint64    `json:"alarm,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Key      string    `json:"key,omitempty"`    // a stream, or what the rule's by makes of it
	Stream   string    `json:"stream,omitempty"` // of the prediction that decided
	Class    string    `json:"class,omitempty"`  // likewise
	Evidence           // likewise
	Since    time.Time `json:"since,omitzero"`   // when the first prediction was stored that raised the alarm; of a silence, the last one
	Time     time.Time `json:"time"`             // when what decided was stored, by the server's clock
	Position uint64    `json:"position"`         // in the job's output: all up to this message has been judged
	Change   string    `json:"change,omitempty"` // of a drift: up, down, wider, narrower, or several with + between
	Who      string    `json:"who,omitempty"`    // acknowledged it, or changed the rules
	Why      string    `json:"why,omitempty"`    // it was cleared, if not for a prediction

	Rules      map[string]string `json:"rules,omitempty"`      // of kind rules: all that hold
	Configured string            `json:"configured,omitempty"` // of kind rules: of the configuration that brought them

	judged []Place // see Logged
	by     Place
}

// Evidence is what a prediction says beside its class. What the model does not say is
// absent in JSON.
type Evidence struct {
	Probability float32 `json:"probability,omitempty"` // of the class, in (0, 1]
	Novelty     float32 `json:"novelty,omitempty"`     // how unlike the training it is: 1 is usual, there is no upper bound
	NoveltyP    float32 `json:"novelty_p,omitempty"`   // the p-value of that, in (0, 1]
	*Estimate           // nil: the model predicts classes. What it points to does not change
}

// Estimate is what a regression predicts, in its own unit.
type Estimate struct {
	Value float32 `json:"value"`
	Low   float32 `json:"low"` // of the interval around it
	High  float32 `json:"high"`
}

// evidence is what a prediction says. JSON has no numbers that are not finite.
func evidence(p *codec.Prediction) (e Evidence) {
	if finite(p.Probability) {
		e.Probability = p.Probability
	}
	if p.NoveltyP > 0 && finite(p.NoveltyP) && finite(p.Novelty) {
		e.Novelty, e.NoveltyP = p.Novelty, p.NoveltyP
	}
	if n := p.Number; n.Known && finite(n.Value) && finite(n.Low) && finite(n.High) {
		e.Estimate = &Estimate{n.Value, n.Low, n.High}
	}
	return e
}

// maxEvent bounds the JSON of an event.
const maxEvent = 2 << 20

// Marshal is an event as it is stored.
func (e *Event) Marshal() ([]byte, error) {
	b, err := json.Marshal(e)
	if err == nil && len(b) > maxEvent {
		err = fmt.Errorf("it has %d bytes, want at most %d", len(b), maxEvent)
	}
	if err != nil {
		return nil, fmt.Errorf("alarm: event %d: %w", e.Number, err)
	}
	return b, nil
}

// Unmarshal reads an event.
func Unmarshal(data []byte) (Event, error) {
	var e Event
	if len(data) > maxEvent {
		return e, fmt.Errorf("alarm: an event of %d bytes, want at most %d", len(data), maxEvent)
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

// Place is a prediction, by its number in its partition: 1, 2, 3, ...
type Place struct {
	Partition int    `json:"partition"`
	Number    uint64 `json:"number"`
}

// Logged is an event as the log has it: with what had been judged when it was made.
type Logged struct {
	Event Event `json:"event"`
	// Judged are how many predictions of each partition had been judged, of those
	// partitions that had any since the event before.
	Judged []Place `json:"judged,omitempty"`
	// By is the prediction that decided; the zero Place of an event that follows from none.
	By Place `json:"by,omitzero"`
}

// Judged is what Logged has of an event that Take has returned; of others, By is zero.
func (e *Event) Judged() (judged []Place, by Place) { return e.judged, e.by }

// PlacesText is places as a header has them: 0:877 3:1201.
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

// ParsePlaces reads what PlacesText has written.
func ParsePlaces(text string) ([]Place, error) {
	var all []Place
	for one := range strings.FieldsSeq(text) {
		partition, number, ok := strings.Cut(one, ":")
		p, err1 := strconv.ParseUint(partition, 10, 31)
		n, err2 := strconv.ParseUint(number, 10, 64)
		if err := errors.Join(err1, err2); !ok || err != nil {
			return nil, fmt.Errorf("alarm: %q is no partition and number, such as 3:1201", one)
		}
		all = append(all, Place{int(p), n})
	}
	return all, nil
}

// tokenBytes are the bytes that a token has as they are.
const tokenBytes = "-_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Token makes a name one that subjects and keys of NATS may have, and no two names the
// same: letters, digits, - and _ stay, and dots that stand alone between others; every
// other byte is = and two hex digits. A name of more than 256 bytes becomes == and its
// SHA-256, an empty one =.
func Token(name string) string {
	if name == "" {
		return "="
	}
	if len(name) > 256 {
		sum := sha256.Sum256([]byte(name))
		return "==" + hex.EncodeToString(sum[:]) // no name's escapes have == in them
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
