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
	errManyBodies = errors.New("too many large requests at a time")
	errSlow       = errors.New("the body comes too slowly")
)

// pacedBody is a body that must keep a pace.
type pacedBody struct {
	io.ReadCloser
	coming   listen.Coming
	deadline func(time.Time) error // of the connection's reads
}

// begin gives the body the time of its pace from now on.
func (b *pacedBody) begin(pace listen.Pace) error {
	var deadline time.Time
	b.coming, deadline = pace.Begin(time.Now())
	return b.deadline(deadline)
}

func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if t := b.coming.Came(n, time.Now()); !t.IsZero() && err == nil {
		err = b.deadline(t)
	}
	return n, err
}

// readBody reads the body of a request, inflated. One that is large, or may be, needs a
// place as soon as a small one would have ended.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	body := &pacedBody{ReadCloser: r.Body, deadline: conn.SetReadDeadline}
	r.Body = body
	if err := body.begin(h.pace); err != nil {
		return nil, err
	}
	b, err := h.readPaced(w, r, body)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("%w: want %v", errSlow, h.pace)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{}) // the server watches the connection while samples are being stored
	}
	return b, err
}

func (h *handler) readPaced(w http.ResponseWriter, r *http.Request, paced *pacedBody) ([]byte, error) {
	most := int64(h.o.MaxMessage)
	body := http.MaxBytesReader(w, r.Body, most)
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	begin, err := io.ReadAll(io.LimitReader(body, smallBody+1))
	plain := encoding == "" || encoding == "identity"
	if err != nil || plain && len(begin) <= smallBody {
		return begin, err
	}
	sender, _ := netip.ParseAddrPort(r.RemoteAddr)
	if !h.large.Take(sender, storeTime) {
		return nil, errManyBodies
	}
	defer h.large.Give(sender)
	if err := paced.begin(h.pace); err != nil { // it has waited for us
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(begin), body)
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
	b, err := io.ReadAll(io.LimitReader(z, most+1))
	if err != nil {
		return nil, fmt.Errorf("the body is not gzip, or its end is missing: %w", err)
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("the body inflated: %w", &http.MaxBytesError{Limit: most})
	}
	return b, nil
}
