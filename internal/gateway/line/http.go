package line

import (
	"errors"
	"regexp"
)

// requestLine matches the first line of an HTTP request. No valid line of line protocol
// matches: its third part is a time.
var requestLine = regexp.MustCompile(`^[A-Za-z]{1,20} [^ \r\n]* HTTP/[0-9]`)

// errHTTP ends a connection that starts with an HTTP request: a web page can make a browser
// send such a request to this port, with lines in its body.
var errHTTP = errors.New("the connection sends an HTTP request, and this port accepts only line protocol: the connection was closed. Use gateway.http for HTTP")
