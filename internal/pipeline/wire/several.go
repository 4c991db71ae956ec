package wire

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// maxSubjects limits the input subjects of a job: the stage requests messages without a
// partition once for each.
const maxSubjects = 64

// An input with several subjects is a Pattern with parts. A NATS stream has one subject
// transform, so the server can only apply a mapping that fits all subjects: the key is
// the whole subject, and the server hashes it, as for a single ">". End events have
// their own subject, because their keys consist of tokens eusn-idle-... only.

// parseSeveral reads several input subjects of one job.
func parseSeveral(texts []string) (Pattern, error) {
	p := Pattern{tokens: []string{">"}, rest: true}
	if len(texts) > maxSubjects {
		return Pattern{}, fmt.Errorf("input subject %.300q: %d subjects, want at most %d: a longer wildcard takes many", strings.Join(texts, " "), len(texts), maxSubjects)
	}
	for _, text := range texts {
		part, err := parseOne(text, false)
		if err != nil {
			return Pattern{}, fmt.Errorf("%w (a blank stands between two subjects)", err)
		}
		if strings.HasPrefix(part.tokens[0], IdlePrefix) {
			return Pattern{}, fmt.Errorf("input subject %q: subjects that begin with %s are the stage's own", text, IdlePrefix)
		}
		for _, other := range p.parts {
			if part.overlaps(other) {
				return Pattern{}, fmt.Errorf("input subject %q overlaps with %s: a message may fit both; want subjects of which no message fits two", text, other.filter)
			}
		}
		p.parts = append(p.parts, part)
	}
	slices.SortFunc(p.parts, func(a, b Pattern) int { return strings.Compare(a.filter, b.filter) })
	p.filter = strings.Join(p.Filters(), " ")
	return p, nil
}

// overlaps reports whether a subject may fit both.
func (p Pattern) overlaps(q Pattern) bool {
	for i := 0; ; i++ {
		if i == len(p.tokens) || i == len(q.tokens) {
			return len(p.tokens) == len(q.tokens)
		}
		a, b := p.tokens[i], q.tokens[i]
		switch {
		case a == ">" || b == ">":
			return true
		case a != "*" && b != "*" && a != b:
			return false
		}
	}
}

// Filters are the subjects that producers publish on, in NATS notation.
func (p Pattern) Filters() []string {
	if p.parts == nil {
		return []string{p.filter}
	}
	all := make([]string, len(p.parts))
	for i, part := range p.parts {
		all[i] = part.filter
	}
	return all
}

// Subjects are the subjects of a job's input: Filters, and the subject of end events.
func (p Pattern) Subjects() []string {
	if p.parts == nil {
		return p.Filters()
	}
	return append(p.Filters(), p.eventSubject()+".*")
}

// Source is the subject that the server maps to Destination: all subjects.
func (p Pattern) Source() string {
	if p.parts == nil {
		return p.filter
	}
	return ">"
}

// eventSubject is where the end events of an input with several subjects are published:
// no two jobs on a server have the same subjects, so no two have the same events.
func (p Pattern) eventSubject() string {
	h := fnv.New32a()
	h.Write([]byte(p.filter))
	return fmt.Sprintf("%s%08x", IdlePrefix, h.Sum32())
}

// partOf returns the part that matches a subject; nil = none.
func (p Pattern) partOf(subject string) *Pattern {
	for i := range p.parts {
		if _, ok := p.parts[i].Key(subject); ok {
			return &p.parts[i]
		}
	}
	return nil
}

// isEvent reports whether end events may have a key of an input with several
// subjects.
func (p Pattern) isEvent(key string) bool {
	number, ok := strings.CutPrefix(key, p.eventSubject()+".")
	return ok && !strings.Contains(number, ".")
}

// checkSeveral refuses a key that none of the subjects produces.
func (p Pattern) checkSeveral(key string) error {
	if p.partOf(key) == nil && !p.isEvent(key) {
		return fmt.Errorf("%.300q cannot be a key of %s: a job with several input subjects has whole subjects for keys, and none of these takes it", key, p.filter)
	}
	return nil
}

// namesOfAll returns the names of all subjects, each once.
func (p Pattern) namesOfAll() []string {
	var all []string
	for _, part := range p.parts {
		for _, name := range part.names {
			if name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// valuesOfAll returns a key's values of the names; empty for names of other subjects.
func (p Pattern) valuesOfAll(key string) []string {
	part := p.partOf(key)
	if part == nil {
		return nil
	}
	own, _ := part.Key(key)
	values := part.Values(own)
	all := make([]string, len(p.Names()))
	for i, name := range p.Names() {
		if at := slices.Index(part.names, name); at >= 0 && at < len(values) {
			all[i] = values[at]
		}
	}
	return all
}
