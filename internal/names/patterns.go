package names

import (
	"fmt"
	"regexp"
	"strings"
)

// Patterns are those of the names that are allowed. nil allows all.
type Patterns struct {
	all  []*regexp.Regexp
	text string
}

// ParsePatterns reads patterns, separated by commas, in which "*" stands for any
// characters, also none. An empty list allows all names.
func ParsePatterns(list string) (*Patterns, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	p := &Patterns{text: list}
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			return nil, fmt.Errorf("%q: want patterns such as pump*, line-7, with one comma between two", list)
		}
		p.all = append(p.all, regexp.MustCompile("(?s)^"+strings.ReplaceAll(regexp.QuoteMeta(one), `\*`, ".*")+"$"))
	}
	return p, nil
}

// Allow reports whether a name fits one of the patterns.
func (p *Patterns) Allow(name string) bool {
	if p == nil {
		return true
	}
	for _, one := range p.all {
		if one.MatchString(name) {
			return true
		}
	}
	return false
}

// String is the list as it was given.
func (p *Patterns) String() string {
	if p == nil {
		return ""
	}
	return p.text
}
