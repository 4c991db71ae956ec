package alarm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/eusn-stream/eusn-stream/codec"
)

// levelCondition is the condition of the kinds value, low and high: a regression's number, or an
// end of its interval, is beyond a bound.
type levelCondition struct {
	source     string // value, low or high
	op         string // >, >=, < or <=
	bound      float32
	clearBound *float32 // beyond this bound a prediction is off; nil: beyond bound
}

// comparisons are the allowed operators.
var comparisons = []string{">", ">=", "<", "<="}

func parseLevel(of string, c clause) (*levelCondition, error) {
	if len(c) != 2 || c[0].quoted || !slices.Contains(comparisons, c[0].text) {
		return nil, fmt.Errorf("%q after %s, want >, >=, < or <= and a number, separated by blanks, such as: %[2]s > 80", c.String(), of)
	}
	l := &levelCondition{source: of, op: c[0].text}
	var err error
	l.bound, err = parseNumber(c[1].text)
	return l, err
}

func parseNumber(text string) (float32, error) {
	x, err := strconv.ParseFloat(text, 32)
	if err != nil || !isFinite(float32(x)) {
		return 0, fmt.Errorf("%q, want a number such as 80 or -0.5", text)
	}
	return float32(x), nil
}

// raisesAbove reports whether large numbers are on.
func (l *levelCondition) raisesAbove() bool { return l.op[0] == '>' }

func (l *levelCondition) setClear(side, text string) error {
	want := "above"
	if l.raisesAbove() {
		want = "below"
	}
	x, err := parseNumber(text)
	switch {
	case err != nil:
		return fmt.Errorf("clear %s is %w", side, err)
	case side != want:
		return fmt.Errorf("clear %s %s: of %s %s want clear %s", side, text, l.source, l.op, want)
	case l.raisesAbove() && x > l.bound, !l.raisesAbove() && x < l.bound:
		return fmt.Errorf("clear %s %s is beyond the number that raises the alarm: the alarm would be cleared while it is raised", side, text)
	}
	l.clearBound = &x
	return nil
}

// Judge implements Condition. A prediction without a number is neither on nor off.
func (l *levelCondition) Judge(p *codec.Prediction, _ string) (on, off bool) {
	x := p.Number.Value
	switch l.source {
	case kindLow:
		x = p.Number.Low
	case kindHigh:
		x = p.Number.High
	}
	if !p.Number.Known || !isFinite(x) {
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
	case l.clearBound == nil:
		off = !on
	case l.raisesAbove():
		off = !on && x < *l.clearBound
	default:
		off = !on && x > *l.clearBound
	}
	return on, off
}
