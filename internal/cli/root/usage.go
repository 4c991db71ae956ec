package root

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagWants are the values that flags of a type accept.
var flagWants = map[string]string{
	"int": "a whole number", "uint32": "a whole number from 0", "uint64": "a whole number from 0", "float64": "a number", "bool": "true or false",
	"duration": "a duration, such as 10s, 5m or 1h30m", "intSlice": "whole numbers with commas between them", "float64Slice": "numbers with commas between them",
}

// Errors of the command library about combinations of flags.
var (
	oneRequired = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	allRequired = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
	exclusive   = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// describeUsage replaces the libraries' errors about flags and arguments. The next step is empty
// if it is the help.
func describeUsage(cmd *cobra.Command, err error) (next string, described error) {
	var unknown *pflag.NotExistError
	var noValue *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.As(err, &unknown):
		name, dashes := unknown.GetSpecifiedName(), "--"
		if unknown.GetSpecifiedShortnames() != "" {
			name, dashes = name[:1], "-"
		}
		return guessFlag(cmd, name), fmt.Errorf("unknown flag %s%s for %q", dashes, name, cmd.CommandPath())
	case errors.As(err, &noValue):
		flag := "--" + noValue.GetFlag().Name
		return cmd.CommandPath() + " " + flag + " VALUE", fmt.Errorf("%s: a value is missing", flag)
	case errors.As(err, &invalid):
		flag, cause := invalid.GetFlag(), errors.Unwrap(invalid)
		if want := flagWants[flag.Value.Type()]; want != "" && (errors.As(cause, &number) || flag.Value.Type() == "duration" && !errors.Is(cause, errOddNumber)) {
			cause = errors.New("want " + want)
		}
		return "", fmt.Errorf("--%s %s: %w", flag.Name, invalid.GetValue(), cause)
	}
	if described := describeArgs(cmd, err); described != nil {
		return usageLine(cmd), described
	}
	if described := describeRequired(cmd, err); described != nil {
		return usageLine(cmd), described
	}
	return "", describeCombination(err)
}

// describeRequired replaces the library's error about required flags; nil for other errors.
func describeRequired(cmd *cobra.Command, err error) error {
	if e := cmd.ValidateRequiredFlags(); e == nil || e.Error() != err.Error() {
		return nil
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, f.Name)
		}
	})
	return fmt.Errorf("%s: want a value", joinFlags(missing, " and "))
}

// describeCombination replaces the library's errors about combinations of flags.
func describeCombination(err error) error {
	text := err.Error()
	if m := oneRequired.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("want %s", joinFlags(strings.Fields(m[1]), " or "))
	}
	if m := allRequired.FindStringSubmatch(text); m != nil {
		missing := strings.Fields(m[2])
		given := slices.DeleteFunc(strings.Fields(m[1]), func(name string) bool { return slices.Contains(missing, name) })
		return fmt.Errorf("%s: want %s too", joinFlags(given, " and "), joinFlags(missing, " and "))
	}
	if m := exclusive.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s exclude each other: want one of them", joinFlags(strings.Fields(m[1]), " and "))
	}
	return err
}

func joinFlags(names []string, between string) string {
	return "--" + strings.Join(names, between+"--")
}

// usageLine is a command with the first form of the arguments in its description.
func usageLine(cmd *cobra.Command) string {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	arguments, _, _ = strings.Cut(arguments, " | ")
	return strings.TrimSpace(cmd.CommandPath() + " " + arguments)
}

// describeArgs replaces the library's errors about the number of arguments; nil for other errors.
func describeArgs(cmd *cobra.Command, err error) error {
	args, text := cmd.Flags().Args(), err.Error()
	isCount := strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires at least ") || strings.HasPrefix(text, "unknown command ")
	if e := cmd.ValidateArgs(args); !isCount || e == nil || e.Error() != text {
		return nil
	}
	for n := len(args) - 1; n >= 0; n-- {
		if cmd.ValidateArgs(args[:n]) == nil {
			return fmt.Errorf("unexpected argument %q", args[n])
		}
	}
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	return fmt.Errorf("an argument is missing: want %s", arguments)
}

// guessFlag returns the call with the most probable flag for an unknown name, or "".
func guessFlag(cmd *cobra.Command, name string) string {
	if slices.Contains([]string{"v", "verbose", "debug"}, name) {
		return "EUSN_LOG_LEVEL=debug " + cmd.CommandPath()
	}
	first := ""
	if len(name) == 1 {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.HasPrefix(f.Name, name) {
				first = cmp.Or(first, f.Name)
			}
		})
	}
	if flag := cmp.Or(first, nearestFlag(cmd, name)); flag != "" {
		return cmd.CommandPath() + " --" + flag
	}
	return ""
}
