package wire

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// KeptPromotions is how many promotions a job's entry names, the newest.
const KeptPromotions = 16

// maxWho limits the name of the promoting person, bytes.
const maxWho = 128

// Promotion makes a readout predict from now on. A job's promotions are numbered from
// 1; before the first, the job's own readout predicts.
type Promotion struct {
	Number uint64 `json:"number"`
	// Readout is its name in the job's registry, hexadecimal digits; empty = the job's
	// first readout.
	Readout string `json:"readout"`
	// Now includes open sequences. Otherwise a sequence keeps the readout of its
	// beginning.
	Now  bool      `json:"now,omitempty"`
	Who  string    `json:"who"`
	When time.Time `json:"when"`
}

// CheckPromotion refuses an invalid promotion.
func (p *Promotion) CheckPromotion() error {
	switch {
	case p.Number == 0:
		return errors.New("it has the number 0, want one from 1")
	case !IsReadout(p.Readout):
		return fmt.Errorf("readout %q, want %d to %d hexadecimal digits, or nothing", OneLine(p.Readout), HashDigits, 2*sha256.Size)
	case len(p.Who) > maxWho || p.Who != OneLine(p.Who):
		return fmt.Errorf("who has %d bytes, want at most %d of one line", len(p.Who), maxWho)
	}
	return nil
}

// IsReadout reports whether something can be the name of a readout.
func IsReadout(name string) bool {
	if name == "" {
		return true
	}
	return len(name) >= HashDigits && len(name) <= 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// PromoteEvent is the body of a promotion in a partition's input. It may come
// repeatedly, late, and from any owner: an event with a number that the partition has
// already used does nothing.
type PromoteEvent struct {
	Job       string `json:"job,omitempty"`   // as in IdleEvent: each job ignores other jobs' events
	Begun     string `json:"begun,omitempty"` // creation time of the job's output: a new job with the same name ignores the event
	Partition int    `json:"partition"`
	Promotion
}

// ParsePromote reads a promotion of a partition, from any source.
func ParsePromote(data []byte, part int) (*PromoteEvent, error) {
	e := new(PromoteEvent)
	err := readEvent(data, e, &e.Partition, part)
	if err == nil && e.Job != "" {
		err = CheckToken(e.Job)
	}
	if err == nil {
		err = e.CheckPromotion()
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: promotion (header %s is %q): %w", HeaderKind, KindPromote, err)
	}
	return e, nil
}

// Promotions are the newest of a job, in order of their numbers.
type Promotions []Promotion

// Last returns the newest promotion; its number is 0 if there is none.
func (p Promotions) Last() Promotion {
	if len(p) == 0 {
		return Promotion{}
	}
	return p[len(p)-1]
}

// AppendPromotion appends a promotion.
func (p Promotions) AppendPromotion(next Promotion) Promotions {
	all := append(append(Promotions{}, p...), next)
	return all[max(0, len(all)-KeptPromotions):]
}

// String is empty for a job without promotions.
func (p Promotions) String() string {
	if len(p) == 0 {
		return ""
	}
	b, _ := json.Marshal(p) // only numbers, names and times
	return string(b)
}

func parsePromotions(text string) (p Promotions, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &p)
	var before uint64
	for i := range p {
		if err == nil {
			err = p[i].CheckPromotion()
		}
		if err == nil && p[i].Number <= before {
			err = errors.New("the numbers do not rise")
		}
		before = p[i].Number
	}
	if err == nil && len(p) == 0 {
		err = errors.New("want one promotion or more")
	}
	if err != nil {
		return nil, fmt.Errorf("header %s is %q: %w", HeaderPromotions, OneLine(text), err)
	}
	return p, nil
}

// Promoted is how far a partition follows the job's promotions.
type Promoted struct {
	// Known is the newest promotion known to the record's writer.
	Known uint64
	// Number is the newest promotion used by the state, at input message At.
	Number, At uint64
	Readout    string // of the promotion; empty = the job's first readout
}

// noReadout stands for an empty name.
const noReadout = "-"

func (p Promoted) joinText() string {
	name := p.Readout
	if name == "" {
		name = noReadout
	}
	return fmt.Sprintf("%d %d %d %s", p.Known, p.Number, p.At, name)
}

func parsePromoted(text string) (p Promoted, err error) {
	parts := strings.Split(text, " ")
	wrong := fmt.Errorf("header %s is %q, want three numbers and a readout", HeaderPromoted, OneLine(text))
	if len(parts) != 4 {
		return p, wrong
	}
	for i, to := range []*uint64{&p.Known, &p.Number, &p.At} {
		if *to, err = strconv.ParseUint(parts[i], 10, 64); err != nil {
			return p, wrong
		}
	}
	if p.Readout = parts[3]; p.Readout == noReadout {
		p.Readout = ""
	}
	if !IsReadout(p.Readout) || p.Known == 0 || p.Known < p.Number {
		return p, wrong
	}
	return p, nil
}
