package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// newClient follows no redirect: another address would be asked with GET and without the
// event, and its answer would not be about it.
func newClient(t *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if t != nil {
		transport.TLSClientConfig = t.Clone() // the transport writes into it
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answered is a receiver's answer that is not yes.
type answered struct {
	code         int
	status, text string        // the text begins the body
	plain        bool          // to what was sent without TLS
	after        time.Duration // Retry-After: how long to wait before the next try
}

func (a *answered) Error() string {
	said := "the receiver answers " + a.status
	if a.text != "" {
		said += fmt.Sprintf(" (%s)", a.text)
	}
	return said
}

// unwanted reports whether the receiver refuses what was sent, and not for now alone.
// Servers that want TLS answer 400 to what comes without.
func (a *answered) unwanted() bool {
	switch a.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return !a.wantsTLS()
	}
	return false
}

// wantsTLS reports whether the answer is that to a plain request: it names HTTPS, and not in
// a link alone.
func (a *answered) wantsTLS() bool {
	text := strings.ReplaceAll(strings.ToLower(a.text), "https://", "")
	return a.plain && a.code == http.StatusBadRequest && strings.Contains(text, "https")
}

const (
	bodyBytes = 64 << 10
	textBytes = 300
)

// post sends a body once. The answer has no body any more.
func post(ctx context.Context, c *http.Client, address string, body []byte, header http.Header) (*http.Response, error) {
	if err := CheckWebhook(address); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, advised(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return nil, advised(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, bodyBytes)) // all, so that the connection is used again
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	no := &answered{answer.StatusCode, answer.Status, oneLine(text), r.URL.Scheme == "http", retryAfter(answer.Header, time.Now())}
	switch {
	case no.unwanted():
		return nil, fmt.Errorf("%w: %w", errUnwanted, no)
	case no.wantsTLS():
		return nil, fmt.Errorf("%w: it wants TLS: begin the address with https://", no)
	case no.code == http.StatusUnauthorized, no.code == http.StatusForbidden:
		return nil, fmt.Errorf("%w: user and password stand in the address, as in https://user:password@host", no)
	case no.code >= 300 && no.code < 400:
		return nil, fmt.Errorf("%w: it is at another address (%s): give that one", no, urls.Redact(answer.Header.Get("Location")))
	}
	return nil, no
}

// mostAsked is how long a receiver may ask to wait before the next try.
const mostAsked = 5 * time.Minute

// retryAfter is how long an answer asks to wait, mostAsked at most: seconds, or a date, which is
// compared with the date of the answer. 0 = it does not ask, or for nothing that can be read.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(mostAsked/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, min(at.Sub(now), mostAsked))
}

// askedWait is how long the receiver whose answer err is asks to wait.
func askedWait(err error) time.Duration {
	var no *answered
	if errors.As(err, &no) {
		return no.after
	}
	return 0
}

// oneLine is the beginning of a text, as a field of the log.
func oneLine(text []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(s) > textBytes {
		s = strings.ToValidUTF8(s[:textBytes], "") + "..."
	}
	return s
}

// CheckWebhook says what is wrong with the address of a webhook.
func CheckWebhook(address string) error {
	if _, err := urls.Parse(address, "http", "https"); err != nil {
		return fmt.Errorf("notify: webhook %q: want a URL such as https://host/path: %w", urls.Redact(address), err)
	}
	return nil
}

// advised leaves the address out of an error, which may hold a password, and says what
// to do about it.
func advised(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var host *net.DNSError
	say := func(what string) error { return fmt.Errorf("%w: %s", err, what) }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return say(fmt.Sprintf("it does not answer within %v", sendTimeout))
	case errors.As(err, &authority):
		return say("give the certificate of the authority that signed its certificate (alarms.tls.ca)")
	case errors.As(err, &name):
		return say("use a name in the address that its certificate has")
	case errors.As(err, &host):
		return say("is the host's name in the address right?")
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("nothing listens there: does it run, and is the port right?")
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		return say("it speaks no TLS: begin the address with http:// or tcp://")
	case strings.HasSuffix(err.Error(), "EOF"):
		return say("it ends the connection: does the address say whether it speaks TLS (https:// or http://, ssl:// or tcp://)?")
	}
	return err
}
