package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MostShadows is how many shadows a job may have.
const MostShadows = 8

// Shadow is a readout that scores what the answering one does, and does not answer.
type Shadow struct {
	Readout string    `json:"readout"` // its name in the job's registry
	Who     string    `json:"who"`     // has set it
	When    time.Time `json:"when"`
}

func (s *Shadow) checkShadow() error {
	p := Promotion{Number: 1, Readout: s.Readout, Who: s.Who}
	if s.Readout == "" {
		return errors.New("a shadow without a readout")
	}
	return p.Check()
}

// Shadows are those of a job, as its entry has them: no state and no prediction of
// the job depends on them.
type Shadows []Shadow

// Has reports whether a readout is one of them.
func (s Shadows) Has(readout string) bool {
	return slices.ContainsFunc(s, func(one Shadow) bool { return one.Readout == readout })
}

// Without leaves a readout out.
func (s Shadows) Without(readout string) Shadows {
	return slices.DeleteFunc(slices.Clone(s), func(one Shadow) bool { return one.Readout == readout })
}

// Text is how an entry has them: empty for a job without.
func (s Shadows) Text() string {
	if len(s) == 0 {
		return ""
	}
	b, _ := json.Marshal(s) // names and times alone
	return string(b)
}

// ParseShadows reads Entry.Shadows. Workers continue without shadows where it is not
// ours: so an entry is not refused for it.
func ParseShadows(text string) (all Shadows, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &all)
	for i := range all {
		if err == nil {
			err = all[i].checkShadow()
		}
		if err == nil && all[:i].Has(all[i].Readout) {
			err = fmt.Errorf("it names %s twice", all[i].Readout)
		}
	}
	if err == nil && (len(all) == 0 || len(all) > MostShadows) {
		err = fmt.Errorf("it names %d shadows, want 1 to %d", len(all), MostShadows)
	}
	if err != nil {
		return nil, fmt.Errorf("header %s is %q: %w", HeaderShadows, OneLine(text), err)
	}
	return all, nil
}

// ShadowOf is the readout in the subject of a shadow's message; empty for what is
// not ours.
func ShadowOf(subject string) string {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || tokens[1] != KindShadow {
		return ""
	}
	return tokens[2]
}
