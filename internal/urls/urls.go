package urls

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// errURL does not repeat the text: it may hold a password.
var errURL = errors.New("the address is no URL (in a password, write %2F for /, %3F for ?, %23 for #, %40 for @ and %25 for %)")

// Parse reads a URL with a host and one of some schemes (any if there are none). Its
// error holds nothing of the text.
func Parse(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || len(schemes) > 0 && !slices.Contains(schemes, u.Scheme) {
		return nil, errURL
	}
	return u, nil
}

// next is where another URL of a list begins.
var next = regexp.MustCompile(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// Redact is a URL, or a list of them with commas between, without users and passwords.
// A text that is no URL, too, loses what is before its last @.
func Redact(text string) string {
	var all []string
	for at := next.FindStringIndex(text); at != nil; at = next.FindStringIndex(text) {
		all = append(all, redact(text[:at[0]]))
		text = text[at[0]+1:]
	}
	return strings.Join(append(all, redact(text)), ",")
}

func redact(text string) string {
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

// clear are the schemes whose traffic anybody in the network between can read.
var clear = []string{"", "nats", "tcp", "mqtt", "ws", "http"}

// Clear reports whether one of the URLs of a list leads to another machine without TLS,
// and whether a user, password or token is in such a URL. A URL may have no scheme.
func Clear(list string) (host string, login bool) {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := Parse(text, clear...)
		if err != nil || Local(u.Hostname()) {
			continue
		}
		host, login = u.Host, login || u.User != nil
	}
	return host, login
}

// Local reports whether only this machine reaches a host.
func Local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
