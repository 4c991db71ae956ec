package ptx

import (
	"fmt"
	"strings"
)

// token is a word (names, registers, numbers, opcodes with their dots), a
// punctuation character, or a quoted string.
type token struct {
	text string
	line int
}

func wordChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '$' || c == '%'
}

// lex splits the text into tokens; comments are dropped.
func lex(text string) ([]token, error) {
	tokens := make([]token, 0, len(text)/6)
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(text[i:], "//"):
			if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(text)
			}
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return nil, fmt.Errorf("ptx: line %d: comment without an end", line)
			}
			line += strings.Count(text[i:i+2+end], "\n")
			i += end + 4
		case c == '"':
			end := strings.IndexAny(text[i+1:], "\"\n")
			if end < 0 || text[i+1+end] == '\n' {
				return nil, fmt.Errorf("ptx: line %d: string without an end", line)
			}
			tokens = append(tokens, token{text[i : i+end+2], line})
			i += end + 2
		case wordChar(c):
			j := i + 1
			for j < len(text) && wordChar(text[j]) {
				j++
			}
			tokens = append(tokens, token{text[i:j], line})
			i = j
		case strings.IndexByte(",;:[]{}()<>+-@!", c) >= 0:
			tokens = append(tokens, token{text[i : i+1], line})
			i++
		default:
			return nil, fmt.Errorf("ptx: line %d: unexpected character %q", line, c)
		}
	}
	return tokens, nil
}
