package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// plan is the text of a history; see plannedHistory in integration/chaos. A file of plans
// has one JSON object after the other.
type plan struct {
	Name     string         `json:"name,omitempty"`
	Found    string         `json:"found,omitempty"`
	Seed     uint64         `json:"seed"`
	Scenario map[string]any `json:"scenario"`
	Faults   []string       `json:"faults"`
}

func readPlans(name string) (all []*plan, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	for {
		p := &plan{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: plan %d: %w", name, len(all)+1, err)
		}
		all = append(all, p)
	}
}

// writePlan writes a plan for TestSimulate. Its text is that of the same plan drawn by a
// seed.
func writePlan(name string, p *plan) error {
	text := *p
	text.Name, text.Found = "", ""
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
}

// runPlans runs the histories of a file of plans.
func (s *summary) runPlans(ctx context.Context, o *options, binary string) error {
	all, err := readPlans(o.plans)
	if err != nil {
		return err
	}
	next, ended := make(chan *plan), make(chan bool)
	for range max(1, o.jobs) {
		go func() {
			for p := range next {
				if h := runHistory(ctx, o, binary, p.Seed, p); ctx.Err() == nil {
					s.addHistory(h, false, o.each)
				}
			}
			ended <- true
		}()
	}
	for _, p := range all {
		next <- p
	}
	close(next)
	for range max(1, o.jobs) {
		<-ended
	}
	return ctx.Err()
}

// shrinkFailures prints the smallest plan of each failed history.
func (s *summary) shrinkFailures(ctx context.Context, o *options, binary string) error {
	for _, h := range s.failures {
		if h.Plan == nil {
			return fmt.Errorf("seed %d has failed before it had a plan", h.Seed)
		}
		want, runs := firstError(h), 0
		p := shrinkPlan(h.Plan, func(p *plan) bool {
			runs++
			h := runHistory(ctx, o, binary, p.Seed, p)
			return ctx.Err() == nil && len(h.Failures) > 0 && firstError(h) == want
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "seed %d: %d of %d faults remain after %d histories with: %s\n%s\n", h.Seed, len(p.Faults), len(h.Plan.Faults), runs, want, line)
	}
	return nil
}

var (
	counted = regexp.MustCompile(`^\d+ lost, \d+ duplicated, \d+ wrong: `)
	times   = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][0-9:.]+Z?`)
	ids     = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	names   = regexp.MustCompile(`\b(dev|gw|via)\d+(-\d+)?`)
	numbers = regexp.MustCompile(`-?\d+(\.\d+)?`)
)

// removeDetails replaces times, ids, names and numbers of an error.
func removeDetails(text string) string {
	text = ids.ReplaceAllString(times.ReplaceAllString(text, "TIME"), "ID")
	return numbers.ReplaceAllString(names.ReplaceAllString(text, "NAME"), "N")
}

// reasonOf returns the lines of an error without details, each once: partitions may have
// equal reasons.
func reasonOf(text string) string {
	var all []string
	for line := range strings.SplitSeq(removeDetails(text), "\n") {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

// firstError returns the first error of a failed history without details: a
// smaller plan has the same error at another place.
func firstError(h history) string {
	text, _, _ := strings.Cut(counted.ReplaceAllString(h.Failures[0], ""), ";")
	text, _, _ = strings.Cut(text, "\n")
	return removeDetails(text)
}

// shrinkPlan removes faults and other disturbances of a plan as long as it fails.
func shrinkPlan(p *plan, fails func(*plan) bool) *plan {
	least := *p
	least.Name, least.Found = "", ""
	try := func(faults []string, scenario map[string]any) bool {
		q := least
		q.Faults, q.Scenario = faults, scenario
		if fails(&q) {
			least = q
			return true
		}
		return false
	}
	shrinkList(least.Faults, func(faults []string) bool { return try(faults, least.Scenario) })
	for _, path := range [...]string{"Lag", "Idle", "Slots", "Traffic.Repeat", "Traffic.Late", "Traffic.Missing", "Traffic.Damaged", "Traffic.Deaths", "Traffic.Reuse", "Traffic.Gateways"} {
		if scenario, ok := without(least.Scenario, strings.Split(path, ".")); ok {
			try(least.Faults, scenario)
		}
	}
	return &least
}

// without returns a copy of fields without the field of a path; a missing field has its
// zero value.
func without(fields map[string]any, path []string) (map[string]any, bool) {
	value, ok := fields[path[0]]
	if !ok {
		return nil, false
	}
	least := map[string]any{}
	for name, value := range fields {
		least[name] = value
	}
	delete(least, path[0])
	if len(path) == 1 {
		return least, true
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	least[path[0]], ok = without(inner, path[1:])
	return least, ok
}

// shrinkList removes parts of a list, halves first, as long as try accepts the rest (the
// algorithm ddmin of Zeller and Hildebrandt). No single element of the result can be
// removed.
func shrinkList(list []string, try func([]string) bool) []string {
	for parts := 2; len(list) > 0; {
		size, removed := (len(list)+parts-1)/parts, false
		for from := 0; from < len(list); from += size {
			rest := slices.Concat(list[:from], list[min(from+size, len(list)):])
			if try(rest) {
				list, removed = rest, true
				parts = max(parts-1, 2)
				break
			}
		}
		switch {
		case removed:
		case size == 1:
			return list
		default:
			parts = min(2*parts, len(list))
		}
	}
	return list
}
