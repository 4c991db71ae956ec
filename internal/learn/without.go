package learn

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Exclusion selects labels and sequences that are not used.
type Exclusion struct {
	streams []*regexp.Regexp
	who     []string
	times   [][2]int64
}

// ParseExclusion parses stream=PATTERN (with * and ?), who=NAME and FROM..TO.
func ParseExclusion(texts []string) (*Exclusion, error) {
	w := &Exclusion{}
	for _, text := range texts {
		from, to, isTime := strings.Cut(text, "..")
		switch pattern, name := strings.TrimPrefix(text, "stream="), strings.TrimPrefix(text, "who="); {
		case pattern != text && pattern != "":
			p := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
			w.streams = append(w.streams, regexp.MustCompile("(?s)^"+p+"$"))
		case name != text && name != "":
			w.who = append(w.who, name)
		case isTime:
			a, wrong := time.Parse(time.RFC3339Nano, from)
			b, bad := time.Parse(time.RFC3339Nano, to)
			if wrong != nil || bad != nil || !b.After(a) {
				return nil, fmt.Errorf("--exclude %s: want a time and a later one, such as 2026-01-31T12:00:00Z..2026-01-31T13:00:00Z", text)
			}
			w.times = append(w.times, [2]int64{a.UnixNano(), b.UnixNano()})
		default:
			return nil, fmt.Errorf("--exclude %q: want stream=PATTERN, who=NAME, or FROM..TO with two times", text)
		}
	}
	return w, nil
}

// excludesEntry reports whether a sequence is excluded. A sequence without times has the storage
// time of its last message.
func (w *Exclusion) excludesEntry(e *Entry) bool {
	if w == nil {
		return false
	}
	earliest, latest := e.Earliest, e.Latest
	if earliest == codec.NoTime {
		earliest, latest = e.Stored, e.Stored
	}
	return slices.ContainsFunc(w.streams, func(p *regexp.Regexp) bool { return p.MatchString(e.Stream) }) ||
		slices.ContainsFunc(w.times, func(t [2]int64) bool { return latest >= t[0] && earliest < t[1] })
}

// excludesLabel reports whether a label is excluded.
func (w *Exclusion) excludesLabel(l Label) bool { return w != nil && slices.Contains(w.who, l.who) }

func rfc3339(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
