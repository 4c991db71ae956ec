package alarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// classCondition is the condition of kind class.
type classCondition struct {
	names   []string
	atLeast float32 // probability; 0 = any
	below   float32 // a prediction of these classes is off below this probability; 0 = below atLeast
}

func parseClasses(c clause) (*classCondition, error) {
	names, rest, err := parseAlternatives("class", c)
	if err != nil {
		return nil, err
	}
	cond := &classCondition{names: names}
	if len(rest) == 0 {
		return cond, nil
	}
	if len(rest) != 2 || rest[0].text != ">=" || rest[0].quoted {
		return nil, fmt.Errorf("%q after the classes, want >= and a probability; put a name with blanks in quotes", rest.String())
	}
	cond.atLeast, err = parseProbability(rest[1].text)
	return cond, err
}

// Judge implements Condition. A prediction that abstains is neither on nor off. Neither is a
// prediction of one of the classes without a probability if the rule requires a probability.
func (c *classCondition) Judge(p *codec.Prediction, class string) (on, off bool) {
	if p.Flags&outcome.FlagAbstain != 0 {
		return false, false
	}
	if !slices.Contains(c.names, class) {
		return false, true
	}
	if c.atLeast == 0 {
		return true, false
	}
	below := c.below
	if below == 0 {
		below = c.atLeast
	}
	return p.Probability >= c.atLeast, p.Probability > 0 && p.Probability < below
}

// clearable is a condition with its own bound for off: clear below, clear above.
type clearable interface {
	setClear(side, text string) error
}

func (c *classCondition) setClear(side, text string) (err error) {
	if c.atLeast == 0 || side != "below" {
		return errors.New("clear below needs a class with a probability, such as: class imbalance >= 0.8, clear below 0.5")
	}
	c.below, err = parseProbability(text)
	if err == nil && c.below > c.atLeast {
		err = fmt.Errorf("clear below %s is greater than the probability that raises the alarm", text)
	}
	return err
}

// flagCondition is the condition of kind flag.
type flagCondition struct{ any outcome.Flag }

func parseFlags(c clause) (*flagCondition, error) {
	names, rest, err := parseAlternatives("flag", c)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q after the flags, want a comma", rest.String())
	}
	cond := new(flagCondition)
	for _, name := range names {
		i := slices.Index(outcome.FlagNames[:], name)
		if i < 0 {
			return nil, fmt.Errorf("flag %q, want one of %s", name, strings.Join(outcome.FlagNames[:], ", "))
		}
		cond.any |= 1 << i
	}
	return cond, nil
}

// Judge implements Condition.
func (c *flagCondition) Judge(p *codec.Prediction, _ string) (on, off bool) {
	on = p.Flags&c.any != 0
	return on, !on
}

// noveltyCondition is the condition of kind novel.
type noveltyCondition struct{ atMost float32 } // p-value

func parseNovel(c clause) (*noveltyCondition, error) {
	if len(c) != 1 {
		return nil, errors.New("want novel and a p-value, such as: novel 0.001")
	}
	p, err := parseProbability(c[0].text)
	return &noveltyCondition{p}, err
}

// Judge implements Condition. A prediction of a readout without a detector is neither on nor off.
func (c *noveltyCondition) Judge(p *codec.Prediction, _ string) (on, off bool) {
	return p.NoveltyP > 0 && p.NoveltyP <= c.atMost, p.NoveltyP > c.atMost
}

// parseAlternatives parses names separated by |.
func parseAlternatives(what string, c clause) (names []string, rest clause, err error) {
	for {
		if len(c) == 0 || !c[0].quoted && (c[0].text == "|" || c[0].text == ">=") {
			return nil, nil, errors.New("want a name after " + what + ", or several with | between them")
		}
		if slices.Contains(names, c[0].text) {
			return nil, nil, fmt.Errorf("duplicate %s %q", what, c[0].text)
		}
		names = append(names, c[0].text)
		if len(c) == 1 || c[1].quoted || c[1].text != "|" {
			return names, c[1:], nil
		}
		c = c[2:]
	}
}
