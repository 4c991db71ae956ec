package alarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// classes is the condition of kind class.
type classes struct {
	names   []string
	atLeast float32 // probability; 0 = any
	below   float32 // one of the class is off below it; 0 = below atLeast
}

func parseClasses(c clause) (*classes, error) {
	names, rest, err := alternatives("class", c)
	if err != nil {
		return nil, err
	}
	cond := &classes{names: names}
	if len(rest) == 0 {
		return cond, nil
	}
	if len(rest) != 2 || rest[0].text != ">=" || rest[0].quoted {
		return nil, fmt.Errorf("%q behind the classes, want >= and a probability; a name with blanks stands in quotes", rest.String())
	}
	cond.atLeast, err = parseProbability(rest[1].text)
	return cond, err
}

// Judge is Condition's. A prediction without a probability is neither on nor off
// where the rule wants one, and the class is one of its. Nor is one that abstains.
func (c *classes) Judge(p *codec.Prediction, class string) (on, off bool) {
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

// clearer is a condition that may say otherwise when it is off: clear below, clear above.
type clearer interface {
	clear(side, text string) error
}

func (c *classes) clear(side, text string) (err error) {
	if c.atLeast == 0 || side != "below" {
		return errors.New("clear below needs a class with a probability, such as: class imbalance >= 0.8, clear below 0.5")
	}
	c.below, err = parseProbability(text)
	if err == nil && c.below > c.atLeast {
		err = fmt.Errorf("clear below %s is more than the probability that raises the alarm", text)
	}
	return err
}

// flags is the condition of kind flag.
type flags struct{ any outcome.Flag }

func parseFlags(c clause) (*flags, error) {
	names, rest, err := alternatives("flag", c)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q behind the flags, want a comma", rest.String())
	}
	cond := new(flags)
	for _, name := range names {
		i := slices.Index(outcome.FlagNames[:], name)
		if i < 0 {
			return nil, fmt.Errorf("flag %q, want one of %s", name, strings.Join(outcome.FlagNames[:], ", "))
		}
		cond.any |= 1 << i
	}
	return cond, nil
}

// Judge is Condition's.
func (c *flags) Judge(p *codec.Prediction, _ string) (on, off bool) {
	on = p.Flags&c.any != 0
	return on, !on
}

// novel is the condition of kind novel.
type novel struct{ atMost float32 } // p-value

func parseNovel(c clause) (*novel, error) {
	if len(c) != 1 {
		return nil, errors.New("want novel and a p-value, such as: novel 0.001")
	}
	p, err := parseProbability(c[0].text)
	return &novel{p}, err
}

// Judge is Condition's. A prediction of a readout without a detector is neither.
func (c *novel) Judge(p *codec.Prediction, _ string) (on, off bool) {
	return p.NoveltyP > 0 && p.NoveltyP <= c.atMost, p.NoveltyP > c.atMost
}

// alternatives reads names with | between them.
func alternatives(what string, c clause) (names []string, rest clause, err error) {
	for {
		if len(c) == 0 || !c[0].quoted && (c[0].text == "|" || c[0].text == ">=") {
			return nil, nil, errors.New("want a name behind " + what + ", or several with | between them")
		}
		if slices.Contains(names, c[0].text) {
			return nil, nil, fmt.Errorf("%s %q is there twice", what, c[0].text)
		}
		names = append(names, c[0].text)
		if len(c) == 1 || c[1].quoted || c[1].text != "|" {
			return names, c[1:], nil
		}
		c = c[2:]
	}
}
