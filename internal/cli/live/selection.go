package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

// selection selects the printed streams.
type selection struct {
	stream string            // an id, or an id with wildcards; empty = all
	where  map[string]string // required values of the names in the input subject
	names  consumer.Names
}

// selectionOf checks the flags of a command.
func selectionOf(stream string, where map[string]string, inputSubject string) (selection, error) {
	names, err := consumer.NamesOf(inputSubject)
	if err != nil {
		return selection{}, err
	}
	for name := range where {
		if all := names.All(); !slices.Contains(all, name) {
			has := "has no names: write {" + name + "} in place of its *"
			if len(all) > 0 {
				has = "has the names " + strings.Join(all, ", ")
			}
			return selection{}, fmt.Errorf("--where %s=%s: the input subject %s %s", name, where[name], inputSubject, has)
		}
	}
	return selection{stream, where, names}, nil
}

// takes reports whether a stream is selected, and the values of the names in it.
func (s *selection) takes(stream string) (map[string]string, bool) {
	if s.stream != "" && s.stream != stream && !fits(s.stream, stream) {
		return nil, false
	}
	of := s.names.Of(stream)
	for name, value := range s.where {
		if of[name] != value {
			return nil, false
		}
	}
	return of, true
}

// fits reports whether the tokens of a stream's id match a pattern, with "*" for any
// token and ">" at the end for all further tokens.
func fits(want, id string) bool {
	tokens, have := strings.Split(want, "."), strings.Split(id, ".")
	for i, tok := range tokens {
		switch {
		case i >= len(have):
			return false
		case tok == ">" && i == len(tokens)-1:
			return true
		case tok != "*" && tok != have[i]:
			return false
		}
	}
	return len(have) == len(tokens)
}

// String describes the streams, for a sentence; empty for all.
func (s *selection) String() string {
	text := ""
	if s.stream != "" {
		text = " of stream " + strconv.Quote(s.stream)
	}
	if len(s.where) > 0 {
		var pairs []string
		for name, value := range s.where {
			pairs = append(pairs, name+"="+value)
		}
		slices.Sort(pairs)
		text += " where " + strings.Join(pairs, ", ")
	}
	return text
}
