package gateway

import (
	"testing"
	"time"
)

// A wrong password waits for its answer. A right password, an unneeded login, and a
// question whether a login is needed do not.
func TestWrongPasswordsWait(t *testing.T) {
	t.Parallel()
	a := Access{User: "u", Password: "p"}
	for _, c := range []struct {
		access         Access
		user, password string
		right, waits   bool
	}{{a, "u", "p", true, false}, {a, "", "", false, false}, {a, "u", "x", false, true}, {a, "x", "p", false, true}, {Access{}, "u", "x", true, false}} {
		begin := time.Now()
		if got := c.access.Allows(c.user, c.password); got != c.right {
			t.Errorf("%+v: %v", c, got)
		}
		if waited := time.Since(begin) >= wrongPause; waited != c.waits {
			t.Errorf("%+v: answered after %v", c, time.Since(begin))
		}
	}
}
