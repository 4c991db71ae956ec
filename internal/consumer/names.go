package consumer

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Names are the names in a job's input subject for the tokens of a key: the names of
// plant.{site}.line.{line} are site and line.
type Names struct{ pattern wire.Pattern }

// NamesOf reads the names from an input subject, possibly none.
func NamesOf(inputSubject string) (Names, error) {
	p, err := wire.ParsePattern(inputSubject)
	if err != nil {
		return Names{}, fmt.Errorf("consumer: %w", err)
	}
	return Names{p}, nil
}

// All are the names, in the order of the subject.
func (n Names) All() (all []string) {
	for _, name := range n.pattern.Names() {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Of returns the value of each name in the key of a stream; nil without names, or if
// the stream's id is no key of this subject, but one of several under a key.
func (n Names) Of(stream string) map[string]string {
	if len(n.All()) == 0 {
		return nil
	}
	var of map[string]string
	for i, value := range n.pattern.Values(stream) {
		if of == nil {
			of = map[string]string{}
		}
		if name := n.pattern.Names()[i]; name != "" && value != "" {
			of[name] = value
		}
	}
	return of
}
