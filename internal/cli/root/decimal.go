package root

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/config"
)

// decimal is the value of a whole-number flag. The flag library reads a leading zero as octal.
type decimal struct{ pflag.Value }

func (d decimal) Set(text string) error {
	if config.OddNumber(text) {
		return errors.New("want a number without leading zeros and underscores (10, not 010)")
	}
	if err := d.Value.Set(text); err != nil && d.Type() == "duration" {
		return errors.New("want a duration, such as 10s, 5m or 1h30m")
	} else if err != nil {
		return errors.New("want a whole number")
	}
	return nil
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
