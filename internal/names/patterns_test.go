package names

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		list, name string
		allowed    bool
	}{
		{"", "anything", true},
		{"pump*, line-7", "pump12", true},
		{"pump*, line-7", "pump", true},
		{"pump*, line-7", "line-7", true},
		{"pump*, line-7", "line-77", false},
		{"pump*, line-7", "a/pump1", false},
		{"A/*/sensor/*", "A/3/sensor/7", true},
		{"A/*/sensor/*", "A/3/motor/7", false},
		{"a.b", "axb", false},
		{"(x|y)*", "x1", false},
		{"*", "a\nb", true},
	} {
		p, err := ParsePatterns(c.list)
		if err != nil || p.Allow(c.name) != c.allowed {
			t.Errorf("%q, %q: %v (%v), want %v", c.list, c.name, p.Allow(c.name), err, c.allowed)
		}
	}
	if _, err := ParsePatterns("a,\xca*"); err == nil { // no UTF-8, which panicked
		t.Error("a pattern that is not UTF-8 is parsed without an error")
	}
	if _, err := ParsePatterns("a,,b"); err == nil {
		t.Error("an empty pattern is taken")
	}
}
