package alarm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// word is a part of a clause: a word, a quoted text, | or >=.
type word struct {
	text   string
	quoted bool
}

// clause is the part between two commas.
type clause []word

func (c clause) String() string {
	var words []string
	for _, w := range c {
		if w.quoted {
			words = append(words, strconv.Quote(w.text))
		} else {
			words = append(words, w.text)
		}
	}
	return strings.Join(words, " ")
}

// cutQuoted removes a quoted text from the start of a rule's text.
func cutQuoted(text string) (plain, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("the quotes at %q do not end, or have a wrong escape (write \\\\ for a backslash)", text)
	}
	plain, err = strconv.Unquote(quoted)
	if err != nil || plain == "" || !utf8.ValidString(plain) {
		return "", "", fmt.Errorf("%s is no text", quoted)
	}
	return plain, text[len(quoted):], nil
}

// endOfWord returns the length of the first word of a text.
func endOfWord(text string) int {
	end := strings.IndexAny(text, " \t\r\n,|\"")
	if end < 0 {
		end = len(text)
	}
	if i := strings.Index(text[:end], ">="); i > 0 {
		end = i
	}
	return end
}

// splitClauses splits a rule's text. It returns at least one clause, which may be empty.
func splitClauses(text string) ([]clause, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the rule is not UTF-8")
	}
	all := []clause{nil}
	last := func() *clause { return &all[len(all)-1] }
	for text != "" {
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			text = text[1:]
		case c == ',':
			if len(*last()) == 0 {
				return nil, errors.New("empty clause before a comma")
			}
			all, text = append(all, nil), text[1:]
		case c == '|':
			*last(), text = append(*last(), word{text: "|"}), text[1:]
		case strings.HasPrefix(text, ">="):
			*last(), text = append(*last(), word{text: ">="}), text[2:]
		case c == '"':
			plain, rest, err := cutQuoted(text)
			if err != nil {
				return nil, err
			}
			*last(), text = append(*last(), word{plain, true}), rest
		default:
			end := endOfWord(text)
			*last(), text = append(*last(), word{text: text[:end]}), text[end:]
		}
	}
	if len(all) > 1 && len(*last()) == 0 {
		return nil, errors.New("empty clause after the last comma")
	}
	return all, nil
}
