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

// Shadow is a readout that scores the same sequences as the active readout, without
// publishing predictions of the job.
type Shadow struct {
	Readout string    `json:"readout"` // its name in the job's registry
	Who     string    `json:"who"`     // the person who set it
	When    time.Time `json:"when"`
}

func (s *Shadow) checkShadow() error {
	p := Promotion{Number: 1, Readout: s.Readout, Who: s.Who}
	if s.Readout == "" {
		return errors.New("a shadow without a readout")
	}
	return p.CheckPromotion()
}

// Shadows are a job's shadows, as in its entry: no state and no prediction of the job
// depends on them.
type Shadows []Shadow

// Has reports whether a readout is a shadow.
func (s Shadows) Has(readout string) bool {
	return slices.ContainsFunc(s, func(one Shadow) bool { return one.Readout == readout })
}

// Without leaves a readout out.
func (s Shadows) Without(readout string) Shadows {
	return slices.DeleteFunc(slices.Clone(s), func(one Shadow) bool { return one.Readout == readout })
}

// Text returns the form in an entry: empty without shadows.
func (s Shadows) Text() string {
	if len(s) == 0 {
		return ""
	}
	b, _ := json.Marshal(s) // only names and times
	return string(b)
}

// ParseShadows reads Entry.Shadows. Workers continue without shadows if the text is
// invalid: the entry is not refused for it.
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

// ShadowOf returns the readout in the subject of a shadow's message; empty for other
// subjects.
func ShadowOf(subject string) string {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || tokens[1] != KindShadow {
		return ""
	}
	return tokens[2]
}
