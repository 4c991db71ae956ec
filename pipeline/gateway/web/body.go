package web

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

var errEncoding = errors.New("want gzip or none")

// readBody reads the body of a request, inflated, of at most that many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body := http.MaxBytesReader(w, r.Body, most)
	encodings := strings.Join(r.Header.Values("Content-Encoding"), ",")
	switch strings.ToLower(strings.TrimSpace(encodings)) {
	case "", "identity":
		return io.ReadAll(body)
	case "gzip", "x-gzip":
	default:
		return nil, fmt.Errorf("Content-Encoding %.40q: %w", encodings, errEncoding)
	}
	z, err := gzip.NewReader(body)
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
