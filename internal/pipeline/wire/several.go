package wire

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// maxSubjects is how many input subjects a job may have: the stage asks for
// messages without a partition once for each.
const maxSubjects = 64

// An input with several subjects is a Pattern with parts. A NATS stream has one
// subject transform, so the server can do with a message only what it can do with
// each: the key is the whole subject, and that is what it hashes, as for ">" alone.
// End events have a subject of their own, because the key of theirs holds no token
// but eusn-idle-....

// parseSeveral reads input subjects of one job.
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

// Filters are the subjects that producers publish on, as NATS writes them.
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

// Subjects are those that a job's input takes: Filters, and what end events need.
func (p Pattern) Subjects() []string {
	if p.parts == nil {
		return p.Filters()
	}
	return append(p.Filters(), p.eventSubject()+".*")
}

// Source is which of these subjects the server makes Destination of: all.
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

// partOf is which of several subjects takes a subject; nil = none.
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

// checkSeveral refuses what is the key of none of several subjects.
func (p Pattern) checkSeveral(key string) error {
	if p.partOf(key) == nil && !p.isEvent(key) {
		return fmt.Errorf("%.300q cannot be a key of %s: a job with several input subjects has whole subjects for keys, and none of these takes it", key, p.filter)
	}
	return nil
}

// namesOfAll are those of all subjects, each once.
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

// valuesOfAll are what the names stand for in a key; empty for those of other
// subjects.
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
