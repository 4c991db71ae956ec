package line

import (
	"errors"
	"regexp"
)

// requestLine is the first line of an HTTP request. No line of line protocol looks like
// that: its third part would be a time.
var requestLine = regexp.MustCompile(`^[A-Za-z]{1,20} [^ \r\n]* HTTP/[0-9]`)

// errHTTP is why a connection for lines is ended whose first line is an HTTP request: a
// web page can make a browser send one to this port, with lines in its body.
var errHTTP = errors.New("the connection sends an HTTP request, and this port takes line protocol only: it is ended. Use gateway.http for HTTP")

// isRequest reports whether the first lines of a connection are an HTTP request.
func isRequest(chunk []byte) bool { return requestLine.Match(chunk) }
