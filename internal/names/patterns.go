package names

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Patterns matches allowed names. nil allows all names.
type Patterns struct {
	patterns []*regexp.Regexp
	text     string
}

// ParsePatterns parses patterns separated by commas. "*" matches any characters, or none. An
// empty list allows all names.
func ParsePatterns(list string) (*Patterns, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	p := &Patterns{text: list}
	for pattern := range strings.SplitSeq(list, ",") {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" {
			return nil, fmt.Errorf("%q: want patterns such as pump*, line-7, with one comma between two", list)
		}
		if !utf8.ValidString(pattern) {
			return nil, fmt.Errorf("pattern %q is not UTF-8", Cut(pattern, quoted))
		}
		p.patterns = append(p.patterns, regexp.MustCompile("(?s)^"+strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")+"$"))
	}
	return p, nil
}

// Allow reports whether a name matches a pattern.
func (p *Patterns) Allow(name string) bool {
	if p == nil {
		return true
	}
	for _, pattern := range p.patterns {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}

// String returns the original list.
func (p *Patterns) String() string {
	if p == nil {
		return ""
	}
	return p.text
}
