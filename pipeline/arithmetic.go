package pipeline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// arithmeticOf names an engine's arithmetic as records do: nothing where it is
// the canonical one.
func arithmeticOf(e reservoir.Engine) string {
	if a := reservoir.ArithmeticOf(e); a != reservoir.Canonical {
		return a
	}
	return ""
}

func (c *committer) otherArithmetic(r wire.Record) error {
	return otherArithmetic(c.subject(), r.Arithmetic, c.ours)
}

// otherArithmetic words that states were computed in an arithmetic that is not
// this engine's.
func otherArithmetic(whose, theirs, ours string) error {
	name := func(arithmetic string) string {
		if arithmetic == "" {
			return reservoir.Canonical
		}
		return arithmetic
	}
	return fmt.Errorf("pipeline: the states of %s were computed in the arithmetic %s, but this engine uses %s, which gives different states: use an engine of the first arithmetic, or start a new job",
		whose, name(theirs), name(ours))
}
