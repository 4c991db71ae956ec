//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// plannedHistory is the text of a history. The seed determines the scenario and the faults
// when drawPlan draws the plan, and the content of messages, the guests with their faults
// and the order of goroutines when the plan runs. A stored plan keeps its faults if the
// generator of scenarios changes.
type plannedHistory struct {
	Name     string         `json:"name,omitempty"`
	Found    string         `json:"found,omitempty"` // the error that it found, and its cause
	Seed     uint64         `json:"seed"`
	Scenario map[string]any `json:"scenario"` // fields of scenario without zero values
	Faults   []string       `json:"faults"`

	scenario *scenario
	events   []event
}

// readPlan reads the plan of a history.
func readPlan(name string) (*plannedHistory, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parsePlan(data)
}

// replaceProcess writes the plan of a seed, and replaces the process with one that runs
// the plan: a drawn plan and a stored plan then have the same history.
func replaceProcess(seed, name string) error {
	data, err := drawPlan(seed)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEED=") })
	return syscall.Exec("/proc/self/exe", os.Args, env)
}

// drawPlan draws a plan as text.
func drawPlan(text string) ([]byte, error) {
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, err
	}
	s := drawScenario(seed)
	p := &plannedHistory{Seed: seed, Faults: []string{}}
	for _, e := range s.schedule(seed) {
		p.Faults = append(p.Faults, e.String())
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&p.Scenario); err != nil {
		return nil, err
	}
	removeZeros(p.Scenario)
	return json.Marshal(p)
}

// removeZeros removes the fields with zero values.
func removeZeros(fields map[string]any) {
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			if removeZeros(inner); len(inner) == 0 {
				delete(fields, name)
			}
			continue
		}
		switch value {
		case nil, false, "", json.Number("0"):
			delete(fields, name)
		}
	}
}

func parsePlan(data []byte) (*plannedHistory, error) {
	p := &plannedHistory{scenario: &scenario{}}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	fields, err := json.Marshal(p.Scenario)
	if err != nil {
		return nil, err
	}
	d = json.NewDecoder(bytes.NewReader(fields))
	d.DisallowUnknownFields()
	if err := d.Decode(p.scenario); err != nil {
		return nil, fmt.Errorf("chaos: the scenario of the plan: %w", err)
	}
	for _, text := range p.Faults {
		e, err := parseEvent(text)
		if err != nil {
			return nil, err
		}
		if e.kind == harming && int(e.pick) >= len(p.scenario.Harms) {
			return nil, fmt.Errorf("chaos: fault %q of a scenario with %d harms", text, len(p.scenario.Harms))
		}
		p.events = append(p.events, e)
	}
	return p, nil
}

// String is such as "7.5s one-way cut, pick 2225520476, for 6.8s".
func (e event) String() string {
	return fmt.Sprintf("%v %s, pick %d, for %v", e.time, e.kind, e.pick, e.d)
}

var eventText = regexp.MustCompile(`^(\S+) (.+), pick (\d+), for (\S+)$`)

func parseEvent(text string) (e event, err error) {
	m := eventText.FindStringSubmatch(text)
	if m == nil {
		return e, fmt.Errorf("chaos: fault %q, want a text such as %q", text, event{time: time.Second, kind: killServer, d: time.Second})
	}
	pick, err1 := strconv.ParseUint(m[3], 10, 32)
	at, err2 := time.ParseDuration(m[1])
	d, err3 := time.ParseDuration(m[4])
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return e, fmt.Errorf("chaos: fault %q: %w", text, err)
		}
	}
	return event{time: at, kind: m[2], pick: uint32(pick), d: d}, nil
}
