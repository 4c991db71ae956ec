package urls

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"nats://h:4222":                     "nats://h:4222",
		"nats://u:p@h:4222":                 "nats://xxxxx@h:4222",
		"nats://token@h:4222,tls://u:p@i/j": "nats://xxxxx@h:4222,tls://xxxxx@i/j",
		"nats://u:p,q@h":                    "nats://xxxxx@h",
		"nats://a:4222,u:p@b":               "nats://xxxxx@b",
		"nats://a:4222, nats://u:p@b":       "nats://a:4222, nats://xxxxx@b",
		"nats://u:p@ss/w@h":                 "nats://xxxxx@h",
		"u:p@h":                             "xxxxx@h",
		"u:p://x@h":                         "xxxxx@h",
		"https://u:p#q@h/path?x=1":          "https://xxxxx@h/path?x=1",
		"":                                  "",
		"no address":                        "no address",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestClear(t *testing.T) {
	for list, want := range map[string]struct {
		host  string
		login bool
	}{
		"nats://h:4222":                     {"h:4222", false},
		"h:4222":                            {"h:4222", false},
		"nats://u:p@h:4222":                 {"h:4222", true},
		"nats://127.0.0.1:1,tls://u:p@h":    {"", false},
		"nats://u:p@localhost,nats://[::1]": {"", false},
		"tls://a,nats://token@b":            {"b", true},
		"https://u:p@h":                     {"", false},
		"http://u:p@h/x":                    {"h", true},
		"":                                  {"", false},
	} {
		if host, login := FindCleartext(list); host != want.host || login != want.login {
			t.Errorf("%s: %q %v, want %+v", list, host, login, want)
		}
	}
}

// Redact never prints the password in user:password@, even in an invalid URL, and errors of
// Parse contain no part of the text.
func FuzzCredentials(f *testing.F) {
	for _, pw := range []string{"secret", "se/cret", "se#cret", "se?cret", "se%cret", "se:cret", "se,cret", "se@cret", "se cret", "se[cret", "s://ecret", "\x7fsecret"} {
		for _, scheme := range []string{"nats", "opc.tcp", "http", "no scheme", ""} {
			f.Add(scheme, pw, "host:4222/path")
		}
	}
	f.Fuzz(func(t *testing.T, scheme, secret, host string) {
		secret = "<" + secret + ">" // distinct from all texts of the messages
		if strings.Contains(scheme+host, secret) || nextURL.MatchString(secret) {
			t.Skip()
		}
		for _, text := range []string{scheme + "://user:" + secret + "@" + host, "user:" + secret + "@" + host, "nats://a," + scheme + "://user:" + secret + "@" + host + ",nats://b"} {
			if got := Redact(text); strings.Contains(got, secret) {
				t.Errorf("%q is shown as %q", text, got)
			}
			if _, err := Parse(text, "nats"); err != nil && err != errURL {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
