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

// newClient returns a client that follows no redirect: the client would send GET without the event
// to the new address, and the answer would not concern the event.
func newClient(t *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if t != nil {
		transport.TLSClientConfig = t.Clone() // the transport modifies its configuration
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// refusal is a receiver's answer with a status other than 2xx.
type refusal struct {
	code         int
	status, text string        // text is the start of the body
	withoutTLS   bool          // the request was sent without TLS
	retryAfter   time.Duration // Retry-After: wait before the next attempt
}

func (a *refusal) Error() string {
	text := "the receiver answered " + a.status
	if a.text != "" {
		text += fmt.Sprintf(" (%s)", a.text)
	}
	return text
}

// isPermanent reports whether the receiver permanently refuses the content. Servers that require
// TLS answer 400 to plain requests.
func (a *refusal) isPermanent() bool {
	switch a.code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return !a.wantsTLS()
	}
	return false
}

// wantsTLS reports whether the answer to a plain request mentions HTTPS outside a link.
func (a *refusal) wantsTLS() bool {
	text := strings.ReplaceAll(strings.ToLower(a.text), "https://", "")
	return a.withoutTLS && a.code == http.StatusBadRequest && strings.Contains(text, "https")
}

const (
	bodyBytes = 64 << 10
	textBytes = 300
)

// postJSON sends a body once. The returned answer's body is closed.
func postJSON(ctx context.Context, c *http.Client, address string, body []byte, header http.Header) (*http.Response, error) {
	if err := CheckWebhook(address); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, addAdvice(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return nil, addAdvice(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, bodyBytes)) // reads the whole body, so that the connection is reused
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return answer, nil
	}
	refused := &refusal{answer.StatusCode, answer.Status, logExcerpt(text), r.URL.Scheme == "http", retryAfter(answer.Header, time.Now())}
	switch {
	case refused.isPermanent():
		return nil, fmt.Errorf("%w: %w", errRefused, refused)
	case refused.wantsTLS():
		return nil, fmt.Errorf("%w: the receiver requires TLS: use an https:// address", refused)
	case refused.code == http.StatusUnauthorized, refused.code == http.StatusForbidden:
		return nil, fmt.Errorf("%w: add user and password to the address, as in https://user:password@host", refused)
	case refused.code >= 300 && refused.code < 400:
		return nil, fmt.Errorf("%w: the receiver redirects to another address (%s): configure this address", refused, urls.Redact(answer.Header.Get("Location")))
	}
	return nil, refused
}

// maxRetryAfter is the longest wait that a receiver may request.
const maxRetryAfter = 5 * time.Minute

// retryAfter returns the wait that an answer requests, at most maxRetryAfter: seconds, or a date,
// which is compared with the date of the answer. 0 = none, or unreadable.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// requestedWait returns the wait that the answer in err requests.
func requestedWait(err error) time.Duration {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.retryAfter
	}
	return 0
}

// logExcerpt returns the start of a text for a log field.
func logExcerpt(text []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(s) > textBytes {
		s = strings.ToValidUTF8(s[:textBytes], "") + "..."
	}
	return s
}

// CheckWebhook checks the address of a webhook.
func CheckWebhook(address string) error {
	if _, err := urls.Parse(address, "http", "https"); err != nil {
		return fmt.Errorf("notify: webhook %q: want a URL such as https://host/path: %w", urls.Redact(address), err)
	}
	return nil
}

// addAdvice removes the address from an error, because an address may have a password, and adds
// advice.
func addAdvice(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var host *net.DNSError
	advise := func(what string) error { return fmt.Errorf("%w: %s", err, what) }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return advise(fmt.Sprintf("no answer within %v", sendTimeout))
	case errors.As(err, &authority):
		return advise("configure the certificate of the authority that signed the receiver's certificate (alarms.tls.ca)")
	case errors.As(err, &name):
		return advise("use an address with a host name of the receiver's certificate")
	case errors.As(err, &host):
		return advise("check the host name in the address")
	case errors.Is(err, syscall.ECONNREFUSED):
		return advise("no program listens there: check that the receiver runs, and check the port")
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
		return advise("the receiver does not use TLS: use an http:// or tcp:// address")
	case strings.HasSuffix(err.Error(), "EOF"):
		return advise("the receiver closes the connection: check the scheme of the address: TLS (https://, ssl://) or not (http://, tcp://)")
	}
	return err
}
