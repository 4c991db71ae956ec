package cli

import "errors"

// A Rule is a rule of a command's flags and arguments. Message names the requirement if the rule is broken.
type Rule struct {
	Broken  bool
	Message string
}

// CheckRules returns the message of the first broken rule as an error.
func CheckRules(rules []Rule) error {
	for _, r := range rules {
		if r.Broken {
			return errors.New(r.Message)
		}
	}
	return nil
}
