package groups

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Rule finds the group of a sample. At most one of column and days is set; otherwise a rule
// only reads the name of the sample's stream.
type Rule struct {
	text   string
	column string         // "": none
	days   bool           // the days of the samples' times
	expr   *regexp.Regexp // nil: the stream itself, without column or days
}

// Texts of the rules for streams and days.
const (
	streams = "stream"
	days    = "day"
)

// Parse reads a rule:
//
//	stream            each stream is a group
//	day               each day, in UTC, of the samples' times is a group
//	^(hall[0-9]+)-    a regular expression: the text of its first pair of parentheses in the name of the stream
//	machine           any other text is a column
func Parse(text string) (*Rule, error) {
	r := &Rule{text: text}
	switch {
	case text == "":
		return nil, errors.New("want stream, day, a column, or a regular expression with a group, such as ^(hall[0-9]+)-")
	case text == streams:
	case text == days:
		r.days = true
	case strings.ContainsAny(text, `()[]{}^$*+?|\`):
		expr, err := Expression(text)
		if err != nil {
			return nil, err
		}
		r.expr = expr
	default:
		r.column = text
	}
	return r, nil
}

// Expression reads a regular expression whose first group, in parentheses, is the name of the
// group.
func Expression(text string) (*regexp.Regexp, error) {
	p, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	if p.NumSubexp() < 1 {
		return nil, fmt.Errorf("%s: want stream, or a regular expression with a group for what belongs together, such as ^(hall[0-9]+)-", text)
	}
	return p, nil
}

// Capture returns the text of an expression's first group in the name of a stream; empty if
// the name does not match.
func Capture(p *regexp.Regexp, stream string) string {
	if found := p.FindStringSubmatch(stream); found != nil {
		return found[1]
	}
	return ""
}

// String returns the text of the rule.
func (r *Rule) String() string { return r.text }

// Column returns the column whose value is the group; false for other rules.
func (r *Rule) Column() (string, bool) { return r.column, r.column != "" }

// Days reports whether a group is a day.
func (r *Rule) Days() bool { return r.days }

// Stream returns the group of a stream, for rules that only read the name; empty if the name
// does not match.
func (r *Rule) Stream(name string) string {
	if r.expr == nil {
		return name
	}
	return Capture(r.expr, name)
}

// Day returns the day of a time, ns since 1970.
func Day(ns int64) string { return time.Unix(0, ns).UTC().Format(time.DateOnly) }

// Missing returns the reason why a stream is in no group.
func (r *Rule) Missing() string {
	switch {
	case r.days:
		return "has samples without a time"
	case r.column != "":
		return fmt.Sprintf("has no value in column %s", r.column)
	}
	return fmt.Sprintf("does not match %s, or what the parentheses hold is empty", r.text)
}
