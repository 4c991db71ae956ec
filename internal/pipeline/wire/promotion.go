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

// KeptPromotions is how many promotions a job's entry names, the newest ones.
const KeptPromotions = 16

// maxWho is how many bytes the name of who promotes may have.
const maxWho = 128

// Promotion says that a readout answers from now on. A job's promotions have
// numbers from 1; before the first, the job's own readout answers.
type Promotion struct {
	Number uint64 `json:"number"`
	// Readout is its name in the job's registry, hexadecimal digits; empty = the
	// readout that the job began with.
	Readout string `json:"readout"`
	// Now also concerns sequences that are open. Otherwise a sequence keeps the
	// readout that it began with.
	Now  bool      `json:"now,omitempty"`
	Who  string    `json:"who"`
	When time.Time `json:"when"`
}

// Check refuses what is no promotion.
func (p *Promotion) Check() error {
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
// any number of times, late, and from any owner: one whose number the partition
// has behind it does nothing.
type PromoteEvent struct {
	Job       string `json:"job,omitempty"`   // as in IdleEvent: each job leaves the others' alone
	Begun     string `json:"begun,omitempty"` // when the job's output was made: a job that begins anew under the name leaves it alone
	Partition int    `json:"partition"`
	Promotion
}

// ParsePromote reads a promotion of a partition, which may come from anywhere.
func ParsePromote(data []byte, part int) (*PromoteEvent, error) {
	e := new(PromoteEvent)
	err := readEvent(data, e, &e.Partition, part)
	if err == nil && e.Job != "" {
		err = CheckToken(e.Job)
	}
	if err == nil {
		err = e.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: promotion (header %s is %q): %w", HeaderKind, KindPromote, err)
	}
	return e, nil
}

// Promotions are the newest of a job, in order of their numbers.
type Promotions []Promotion

// Last is the newest one; its number is 0 where there was none.
func (p Promotions) Last() Promotion {
	if len(p) == 0 {
		return Promotion{}
	}
	return p[len(p)-1]
}

// AppendPromotion adds one.
func (p Promotions) AppendPromotion(next Promotion) Promotions {
	all := append(append(Promotions{}, p...), next)
	return all[max(0, len(all)-KeptPromotions):]
}

// String is empty for a job without promotions.
func (p Promotions) String() string {
	if len(p) == 0 {
		return ""
	}
	b, _ := json.Marshal(p) // numbers, names and times alone
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
			err = p[i].Check()
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
	// Known is the newest promotion that whoever wrote the record had heard of.
	Known uint64
	// Number is the newest that the state has taken, by input message At.
	Number, At uint64
	Readout    string // of that one; empty = the one that the job began with
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
