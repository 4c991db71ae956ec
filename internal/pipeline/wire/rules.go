package wire

import (
	"fmt"
	"strings"
)

// The default names of a job and its input subject.
const (
	DefaultJob          = "eusn"
	DefaultInputSubject = "sensors.*"
)

// CheckToken refuses text that is not one valid token of a subject.
func CheckToken(s string) error {
	if s == "" || strings.ContainsAny(s, " \t\r\n.*>\x00") {
		return fmt.Errorf("%.80q cannot be a subject token: it must not be empty nor hold blanks, dots, * or >", s)
	}
	return nil
}
