package urls

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// errURL does not repeat the text, which may contain a password.
var errURL = errors.New("the address is no URL (in a password, write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %)")

// Parse parses a URL with a host and one of the schemes (any scheme if the list is empty).
// Errors contain no part of the text.
func Parse(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || len(schemes) > 0 && !slices.Contains(schemes, u.Scheme) {
		return nil, errURL
	}
	return u, nil
}

// nextURL matches the start of another URL in a list.
var nextURL = regexp.MustCompile(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// Redact removes users and passwords from a URL, or from a list of URLs with commas. In an
// invalid URL it replaces everything before the last @.
func Redact(text string) string {
	var parts []string
	for at := nextURL.FindStringIndex(text); at != nil; at = nextURL.FindStringIndex(text) {
		parts = append(parts, redactOne(text[:at[0]]))
		text = text[at[0]+1:]
	}
	return strings.Join(append(parts, redactOne(text)), ",")
}

func redactOne(text string) string {
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return text
	}
	scheme, _, found := strings.Cut(text[:i], "://")
	if !found || strings.ContainsAny(scheme, "@:") {
		return "xxxxx" + text[i:]
	}
	return scheme + "://xxxxx" + text[i:]
}

// clearSchemes are the schemes without encryption.
var clearSchemes = []string{"", "nats", "tcp", "mqtt", "ws", "http"}

// FindCleartext returns the host of a URL in a list that leads to another machine without TLS,
// and reports whether such a URL contains a user, password or token. A URL may have no scheme.
func FindCleartext(list string) (host string, login bool) {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := Parse(text, clearSchemes...)
		if err != nil || IsLocal(u.Hostname()) {
			continue
		}
		host, login = u.Host, login || u.User != nil
	}
	return host, login
}

// IsLocal reports whether a host is reachable only from this machine.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
