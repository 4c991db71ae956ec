package formats

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// source is the place of a value in a message, and its scale and offset.
type source struct {
	text          string // the original text
	message       bool   // begins with "$"
	steps         []step
	linear        bool // has a scale or an offset
	scale, offset float64
}

// step is a name, or a position if index is not negative.
type step struct {
	name  string
	index int
}

// The forms of a source, and of a channel's source. Package internal/config has the same
// patterns; a test of the commands compares both.
//
//	source  = ( "$" | "@" | name | position ) { "." name | position }
//	name    = characters but blanks and .[]*?()"'$@
//	position = "[" digits "]" | "[" name in quotes "]"
//	channel = source [ " * " number ] [ " + " number | " - " number ]
//
// "$" is the message, "@" the row.
const (
	namePattern     = `[^\s.\[\]*?()"'$@]+`
	positionPattern = `\[([0-9]{1,7}|"[^"]+"|'[^']+')\]`
	numberPattern   = `[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,2})?`
	sourcePattern   = `^([$@]|` + namePattern + `|` + positionPattern + `)([.]` + namePattern + `|` + positionPattern + `)*`
	channelPattern  = sourcePattern + `( [*] -?` + numberPattern + `)?( [+-] ` + numberPattern + `)?$`
)

var (
	aSource  = regexp.MustCompile(sourcePattern + `$`)
	aChannel = regexp.MustCompile(channelPattern)
	aStep    = regexp.MustCompile(`^(` + namePattern + `|` + positionPattern + `)`)
)

// parseSource parses a source; channel allows a scale and an offset.
func parseSource(text string, channel bool) (source, error) {
	switch {
	case channel && !aChannel.MatchString(text):
		return source{}, fmt.Errorf("%q: want a source such as $.axis.x, $.values[0] or $[\"a name\"] (without wildcards or filters), and after it no more than * and a number, then + or - and a number, with one blank before and after each sign", text)
	case !channel && !aSource.MatchString(text):
		return source{}, fmt.Errorf("%q: want a source such as $.axis.x, $.values[0] or $[\"a name\"] (without wildcards or filters)", text)
	}
	s := source{text: text, scale: 1}
	rest := text
	if rest[0] == '$' || rest[0] == '@' {
		s.message, rest = rest[0] == '$', rest[1:]
	}
	for rest != "" && rest[0] != ' ' {
		rest = strings.TrimPrefix(rest, ".")
		one := aStep.FindString(rest)
		rest = rest[len(one):]
		s.steps = append(s.steps, stepOf(one))
	}
	words := strings.Fields(rest)
	for i := 0; i+1 < len(words); i += 2 {
		x, err := strconv.ParseFloat(words[i+1], 64)
		switch {
		case err != nil:
			return source{}, fmt.Errorf("%q: %w", text, err)
		case words[i] == "*" && x == 0:
			return source{}, fmt.Errorf("%q: want a scale that is not 0", text)
		case words[i] == "*":
			s.scale = x
		case words[i] == "-":
			s.offset = -x
		default:
			s.offset = x
		}
		s.linear = true
	}
	return s, nil
}

// stepOf parses a name, or the text in brackets.
func stepOf(text string) step {
	if text[0] != '[' {
		return step{name: text, index: -1}
	}
	inner := text[1 : len(text)-1]
	if n, err := strconv.Atoi(inner); err == nil && inner[0] != '"' && inner[0] != '\'' {
		return step{index: n}
	}
	return step{name: inner[1 : len(inner)-1], index: -1}
}

// path formats the steps for messages.
func path(steps []step) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range steps {
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		} else {
			b.WriteString(stepText(s.name))
		}
	}
	return b.String()
}

// stepText formats a name in a path.
func stepText(name string) string {
	if strings.ContainsAny(name, ".[] *?()\"'") || name == "" {
		return fmt.Sprintf("[%q]", name)
	}
	return "." + name
}
