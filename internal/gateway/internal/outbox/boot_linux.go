package outbox

import (
	"os"
	"strings"
)

// bootID is another after each start of the machine.
var bootID = func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
