package wire

import (
	"fmt"
	"strings"
)

// What a job and its input subject are called where nobody says.
const (
	DefaultJob          = "eusn"
	DefaultInputSubject = "sensors.*"
)

// CheckInputSubject refuses what cannot be a job's input subject.
func CheckInputSubject(s string) error {
	prefix, ok := strings.CutSuffix(s, ".*")
	if !ok || prefix == "" {
		return fmt.Errorf(`input subject %q, want tokens ending in ".*", like %q`, s, DefaultInputSubject)
	}
	for tok := range strings.SplitSeq(prefix, ".") {
		if err := CheckToken(tok); err != nil || strings.HasPrefix(prefix, "$") {
			return fmt.Errorf("input subject %q: only its last token may be a wildcard, none may be empty, hold blanks or begin with $", s)
		}
	}
	return nil
}

// CheckToken refuses what cannot be one token of a subject.
func CheckToken(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\r\n.*>\x00") {
		return fmt.Errorf("%q cannot be a subject token: it must not be empty nor hold blanks, dots, * or >", s)
	}
	return nil
}
