package errtext

import (
	"context"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// packages are the packages whose errors begin with their name, for callers in Go.
var packages = strings.Fields(`abstain adaptive admin alarm backfill baseline bench certs choose clang client codec config consumer cpu cuda
	detect drift dynamics early edge embedding energy exact explain figures fit fleet formats gateway gpu inlog kernel kernels
	labels learn load metrics modbus mqtt natsclient natsserver notify novelty offline outbox owner pack pipeline plan producer
	quality readout record registry report reservoir roles sequence service telemetry traces watch`)

// For returns the text of an error for users, "" for nil: without the name of the package at the beginning of each error of
// the chain, and without names of functions of Go. Other parts of the text, such as names of streams, are unchanged. A
// text that begins with one of the typed values keeps its beginning.
func For(err error, typed ...string) string {
	if err == nil {
		return ""
	} else if text := describeSystem(err); text != "" {
		return text
	}
	text, begin := err.Error(), 0
	name, _, hasName := strings.Cut(text, ": ")
	hasName = hasName && slices.Contains(packages, name) && !slices.ContainsFunc(typed, func(s string) bool { return strings.HasPrefix(text, s) })
	for _, e := range causes(err) {
		at := strings.Index(text[begin:], e.Error())
		if at < 0 {
			continue
		}
		begin += at
		hasName = hasName && begin > 0 // otherwise the name belongs to e
		rest := text[begin+len(e.Error()):]
		text = text[:begin] + For(e, typed...)
		begin, text = len(text), text+rest
	}
	if hasName {
		text = text[len(name)+2:]
	}
	return text
}

// causes returns the errors that err wraps.
func causes(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if cause := e.Unwrap(); cause != nil {
			return []error{cause}
		}
	}
	return nil
}

// describeSystem returns the text of an error of Go's library, or "" if its own text is kept.
func describeSystem(err error) string {
	switch e := err.(type) {
	case *fs.PathError:
		if e.Op == "open" || e.Op == "stat" || e.Op == "lstat" {
			return e.Path + ": " + For(e.Err)
		}
	case *os.SyscallError:
		return For(e.Err)
	case *net.OpError:
		if what := map[string]string{"listen": "cannot listen on ", "dial": "cannot connect to "}[e.Op]; what != "" && e.Addr != nil {
			return what + e.Addr.String() + ": " + For(e.Err)
		}
	case *net.DNSError:
		return e.Name + ": " + e.Err
	case *strconv.NumError:
		if e.Err == strconv.ErrRange {
			return strconv.Quote(e.Num) + " is out of range"
		}
		return strconv.Quote(e.Num) + " is not a number"
	}
	if err == context.DeadlineExceeded {
		return "no answer in time"
	} else if rest, is := strings.CutPrefix(err.Error(), "nats: API error: "); is {
		_, description, _ := strings.Cut(rest, "description=")
		return "nats: " + description
	}
	return ""
}
