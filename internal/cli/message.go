package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/errtext"
)

// typed returns the typed arguments and values of flags that could be mistaken for the name of a package.
func (a *App) typed() (all []string) {
	if a.command == nil {
		return nil
	}
	add := func(s string) {
		if strings.Contains(s, ": ") {
			all = append(all, s)
		}
	}
	for _, s := range a.command.Flags().Args() {
		add(s)
	}
	a.command.Flags().Visit(func(f *pflag.Flag) { add(f.Value.String()) })
	return all
}

// ErrorText returns the text of an error for users.
func ErrorText(err error) string { return errtext.For(err) }

// forPeople returns the arguments of a message with the texts of errors.
func forPeople(args []any) []any {
	args = slices.Clone(args)
	for i := range args {
		if err, is := args[i].(error); is {
			args[i] = errors.New(errtext.For(err))
		}
	}
	return args
}
