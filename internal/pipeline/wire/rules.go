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

// CheckToken refuses what cannot be one token of a subject.
func CheckToken(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\r\n.*>\x00") {
		return fmt.Errorf("%.80q cannot be a subject token: it must not be empty nor hold blanks, dots, * or >", s)
	}
	return nil
}
