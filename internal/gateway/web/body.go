package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
)

var (
	errEncoding   = errors.New("want gzip or none")
	errManyBodies = errors.New("too many concurrent large requests")
	errSlow       = errors.New("the body arrives too slowly")
)

// pacedBody is a request body with a minimum pace.
type pacedBody struct {
	io.ReadCloser
	arrival  listen.Arrival
	deadline func(time.Time) error // sets the deadline of the connection's reads
}

// startPace starts the time limits of the body.
func (b *pacedBody) startPace(pace listen.Pace) error {
	var deadline time.Time
	b.arrival, deadline = pace.Start(time.Now())
	return b.deadline(deadline)
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if t := b.arrival.AddBytes(n, time.Now()); !t.IsZero() && err == nil {
		err = b.deadline(t)
	}
	return n, err
}

// readBody reads the body of a request and decompresses it. A body above smallBody, or of
// unknown size, needs a place.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	body := &pacedBody{ReadCloser: r.Body, deadline: conn.SetReadDeadline}
	r.Body = body
	if err := body.startPace(h.pace); err != nil {
		return nil, err
	}
	b, err := h.readPaced(w, r, body)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("%w: want %v", errSlow, h.pace)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{}) // the server watches the connection during the storing
	}
	return b, err
}

func (h *handler) readPaced(w http.ResponseWriter, r *http.Request, paced *pacedBody) ([]byte, error) {
	limit := int64(h.options.MaxMessage)
	body := http.MaxBytesReader(w, r.Body, limit)
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	head, err := io.ReadAll(io.LimitReader(body, smallBody+1))
	plain := encoding == "" || encoding == "identity"
	if err != nil || plain && len(head) <= smallBody {
		return head, err
	}
	sender, _ := netip.ParseAddrPort(r.RemoteAddr)
	if !h.large.Acquire(sender, storeTime) {
		return nil, errManyBodies
	}
	defer h.large.Release(sender)
	if err := paced.startPace(h.pace); err != nil { // after the wait for a place
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head), body)
	switch {
	case plain:
		return io.ReadAll(whole)
	case encoding != "gzip" && encoding != "x-gzip":
		return nil, fmt.Errorf("Content-Encoding %.40q: %w", encoding, errEncoding)
	}
	z, err := gzip.NewReader(whole)
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip, or its end is missing: %w", err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("the body inflated: %w", &http.MaxBytesError{Limit: limit})
	}
	return b, nil
}
