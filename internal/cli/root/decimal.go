package root

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/config"
)

// decimal is the value of a flag that is a whole number. The library reads one with a
// leading zero as octal.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if config.OddNumber(text) {
		return errors.New("want a number without leading zeros and underscores (10, not 010)")
	}
	return d.Value.Set(text)
}

// readDecimal lets the flags of a command, and of those in it, refuse numbers that a
// configuration file refuses.
func readDecimal(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if slices.Contains([]string{"int", "int32", "int64", "uint", "uint32", "uint64", "duration"}, f.Value.Type()) {
				if _, is := f.Value.(decimal); !is {
					f.Value = decimal{f.Value}
				}
			}
		})
	}
	for _, c := range cmd.Commands() {
		readDecimal(c)
	}
}
