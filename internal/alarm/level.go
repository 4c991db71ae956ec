package alarm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// levelCondition is the condition of the kinds value, low, high and input: a regression's number, an
// end of its interval, or a statistic of a channel, is beyond a bound.
type levelCondition struct {
	source     string // value, low, high or input
	index      int    // input: in outcome.Answer.Inputs
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

// maxChannel is the largest channel of a rule.
const maxChannel = 1 << 16

func parseInput(c clause) (*levelCondition, error) {
	if len(c) != 4 || c[1].quoted || !slices.Contains(novelty.InputNames[:], c[1].text) {
		return nil, fmt.Errorf("%q after input, want the number of a channel, %s and a bound in deviations, such as: input 2 level < -3", c.String(), strings.Join(novelty.InputNames[:], " or "))
	}
	channel, err := strconv.ParseUint(c[0].text, 10, 32)
	if err != nil || channel > maxChannel {
		return nil, fmt.Errorf("channel %q, want a number from 0 to %d", c[0].text, maxChannel)
	}
	l, err := parseLevel(kindInput, c[2:])
	if err == nil {
		l.index = int(channel)*novelty.InputsOf + slices.Index(novelty.InputNames[:], c[1].text)
	}
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
	x, known := p.Number.Value, p.Number.Known
	switch l.source {
	case kindLow:
		x = p.Number.Low
	case kindHigh:
		x = p.Number.High
	case kindInput:
		if known = l.index < len(p.Inputs); known {
			x = p.Inputs[l.index]
		}
	}
	if !known || !isFinite(x) {
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
