package traces

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

const (
	attempts    = 4                      // of a request
	retryWait   = 500 * time.Millisecond // before the second attempt; doubled each time
	requestTime = 10 * time.Second
	answerBytes = 4 << 10
	headerBytes = 64 << 10 // of headers_file
)

// client posts spans to a collector by OTLP over HTTP.
type client struct {
	url, shown string
	header     http.Header
	http       http.Client
}

func newClient(o Options) (*client, error) {
	u, err := urls.Parse(o.Endpoint, "http", "https")
	if err != nil || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("traces.endpoint is no URL such as http://127.0.0.1:4318, without a name, a password and a query")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	c := &client{url: u.String(), shown: u.Scheme + "://" + u.Host, header: http.Header{}}
	if err := c.readHeaders(o.HeadersFile); err != nil {
		return nil, err
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	c.header.Set("Content-Encoding", "gzip")
	c.header.Set("User-Agent", "eusn-stream/"+o.Version)
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = o.TLS
	c.http = http.Client{Transport: t, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // credentials must not go to another server
	}}
	return c, nil
}

// readHeaders reads the headers for a collector. Errors never contain the file's content, which may
// be secret.
func (c *client) readHeaders(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("traces.headers_file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, headerBytes+1))
	if err != nil {
		return fmt.Errorf("traces.headers_file: %w", err)
	}
	if len(b) > headerBytes {
		return fmt.Errorf("traces.headers_file: %s has more than %d bytes", name, headerBytes)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || !isToken(key) || value == "" || !isPrintable(value) {
			return fmt.Errorf("traces.headers_file: %s, line %d: want Name: value", name, n)
		}
		c.header.Add(key, value)
	}
	return nil
}

// isToken reports whether a text is a valid header name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces posts spans. The message of the request has the same bytes as TracesData.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	raw, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	if _, err := z.Write(raw); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	wait := retryWait
	for attempt := 1; ; attempt++ {
		retry, err := c.postOnce(ctx, body.Bytes())
		if err == nil || !retry || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
			wait *= 2
		}
	}
}

// postOnce makes one attempt. retry means that another attempt may succeed.
func (c *client) postOnce(ctx context.Context, body []byte) (retry bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header = c.header.Clone()
	answer, err := c.http.Do(r)
	if err != nil {
		return true, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, answerBytes) // so that the connection is reused
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return false, nil
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return true, fmt.Errorf("the collector answered %s", answer.Status)
	default:
		return false, fmt.Errorf("the collector answered %s", answer.Status)
	}
}
