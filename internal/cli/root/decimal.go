package root

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/config"
)

var errOddNumber = errors.New("want a number without leading zeros and underscores (10, not 010)")

// decimal is the value of a whole-number flag. The flag library reads a leading zero as octal.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if config.OddNumber(text) {
		return errOddNumber
	}
	return d.Value.Set(text)
}

// useDecimal makes the flags of a command and its subcommands refuse the numbers that a
// configuration file refuses.
func useDecimal(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"int", "int32", "int64", "uint", "uint32", "uint64", "duration"}, f.Value.Type()) {
				if _, ok := f.Value.(decimal); !ok {
					f.Value = decimal{f.Value}
				}
			}
		})
	}
	for _, c := range cmd.Commands() {
		useDecimal(c)
	}
}
