package alarm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/eusn-stream/eusn-stream/codec"
)

// level is the condition of the kinds value, low and high: the number that a regression
// predicts, or an end of its interval, is beyond a bound.
type level struct {
	of    string // value, low or high
	op    string // >, >=, < or <=
	bound float32
	off   *float32 // on the other side of it a prediction is off; nil: of bound
}

// comparisons are those of a number with a bound.
var comparisons = []string{">", ">=", "<", "<="}

func parseLevel(of string, c clause) (*level, error) {
	if len(c) != 2 || c[0].quoted || !slices.Contains(comparisons, c[0].text) {
		return nil, fmt.Errorf("%q behind %s, want >, >=, < or <= and a number, with blanks between, such as: %[2]s > 80", c.String(), of)
	}
	l := &level{of: of, op: c[0].text}
	var err error
	l.bound, err = parseNumber(c[1].text)
	return l, err
}

func parseNumber(text string) (float32, error) {
	x, err := strconv.ParseFloat(text, 32)
	if err != nil || !finite(float32(x)) {
		return 0, fmt.Errorf("%q, want a number such as 80 or -0.5", text)
	}
	return float32(x), nil
}

// above reports whether a number is on when it is large.
func (l *level) above() bool { return l.op[0] == '>' }

func (l *level) clear(side, text string) error {
	want := "above"
	if l.above() {
		want = "below"
	}
	x, err := parseNumber(text)
	switch {
	case err != nil:
		return fmt.Errorf("clear %s is %w", side, err)
	case side != want:
		return fmt.Errorf("clear %s %s: of %s %s want clear %s", side, text, l.of, l.op, want)
	case l.above() && x > l.bound, !l.above() && x < l.bound:
		return fmt.Errorf("clear %s %s is beyond the number that raises the alarm: it would be cleared while it is raised", side, text)
	}
	l.off = &x
	return nil
}

// Judge is Condition's. A prediction without a number is neither on nor off.
func (l *level) Judge(p *codec.Prediction, _ string) (on, off bool) {
	x := p.Number.Value
	switch l.of {
	case kindLow:
		x = p.Number.Low
	case kindHigh:
		x = p.Number.High
	}
	if !p.Number.Known || !finite(x) {
		return false, false
	}
	switch l.op {
	case ">":
		on = x > l.bound
	case ">=":
		on = x >= l.bound
	case "<":
		on = x < l.bound
	case "<=":
		on = x <= l.bound
	}
	switch {
	case l.off == nil:
		off = !on
	case l.above():
		off = !on && x < *l.off
	default:
		off = !on && x > *l.off
	}
	return on, off
}
